"""Lasting tables: verdicts, choosing and balancing, bonds, blocks."""
