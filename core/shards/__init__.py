"""Shards: regions of a lasting table that are planned apart (docs/design.md, "Shards")."""
