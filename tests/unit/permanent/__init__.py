"""Permanent values: roles, cliques and how they are published."""
