"""What the auditor reads: published bytes, private files and events, each by its own interpreter."""
