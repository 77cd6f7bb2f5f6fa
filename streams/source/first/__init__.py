"""`shoal policy init`: a first policy and mapping from a look at the data."""
