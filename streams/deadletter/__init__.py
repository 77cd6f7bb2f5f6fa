"""Rejected records, sent once each to the dead-letter topic."""
