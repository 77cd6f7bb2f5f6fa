"""Commands on files: replay, audit, produce, policy check, and the formats they read and write."""
