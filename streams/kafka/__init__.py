"""Kafka: topics, transactions, and reading what was committed."""
