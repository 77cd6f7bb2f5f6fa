"""The command `shoal demo`: a made-up clinic, embedded services, and an attacker who keeps every release."""
