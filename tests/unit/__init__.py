"""Tests of one part at a time, with no service."""
