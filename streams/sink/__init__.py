"""Sinks: where committed releases go from the releases topic."""
