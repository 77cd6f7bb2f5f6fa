"""Every package that Shoal is installed with, by version and hash, for each Python and platform it is supported on."""
