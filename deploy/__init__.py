"""Runs Shoal and its services, on this machine or in containers. Not installed with the package."""
