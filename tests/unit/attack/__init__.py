"""Attacks on published series: what they find in bad ones, and do not in good ones."""
