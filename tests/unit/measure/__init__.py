"""Losses and queries."""
