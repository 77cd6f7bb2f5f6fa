"""Events, windows and folding."""
