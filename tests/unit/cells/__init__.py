"""Regions and the tree."""
