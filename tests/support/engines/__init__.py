"""Series of releases made by the real engine, by naive ones and by wrong ones."""
