"""The pure part of Shoal: what is published, decided from data alone."""
