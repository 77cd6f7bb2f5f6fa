"""Events before they are planned: reading them, judging them, and what a window of them says about each person."""
