"""The audit in words."""
