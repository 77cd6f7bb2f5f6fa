"""Tests on a real Kafka and a real Redis."""
