"""Parts of the service that need no service."""
