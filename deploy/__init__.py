"""How Shoal is run: on this machine, in containers, on a cluster. Not installed with the package."""
