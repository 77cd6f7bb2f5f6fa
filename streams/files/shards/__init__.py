"""Shards of `shoal replay`: their states in files, and the processes that plan them."""
