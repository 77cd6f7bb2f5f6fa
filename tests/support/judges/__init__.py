"""Naive judges: each knows the truth, shares no code with the engine and counts exactly."""
