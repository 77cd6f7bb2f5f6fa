"""Hostile inputs: each is accepted or rejected, quickly, and the next release comes."""
