"""Redis: the keys of a table, its scripts, its records, and a release on its way into it."""
