"""The policy and its file."""
