"""The whole of a sharded release: its parts, put together under one manifest."""
