"""Other publishers' tables."""
