"""The policy of a table: what is published, with which promises, and how the file that says so is read."""
