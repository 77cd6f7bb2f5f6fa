"""Random people and what happens to them."""
