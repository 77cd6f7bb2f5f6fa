"""Attacks played on published releases: possible worlds, linking, and what a naive publisher would give away."""
