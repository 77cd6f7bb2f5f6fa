"""Snapshots: the whole state of a table at one release in one file, how it is taken, found again and brought back."""
