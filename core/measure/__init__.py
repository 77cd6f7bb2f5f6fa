"""Measures of a published release: information loss and the error of count queries."""
