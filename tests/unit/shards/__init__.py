"""Cuts, the desk, and what people take along from shard to shard."""
