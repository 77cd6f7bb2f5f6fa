"""Cells: the anonymization tree, how it grows, and the regions it publishes (Pei)."""
