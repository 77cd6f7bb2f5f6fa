"""Shoal republishes changing tables about people, release after release, without giving anyone away."""
