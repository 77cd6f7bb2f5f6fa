"""Commands on files and what they read and write."""
