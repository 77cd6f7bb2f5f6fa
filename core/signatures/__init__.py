"""Lasting tables: every protected value of a person is always shown as the same set of values, equally often.

`lasting.py` has the steps of a release in their order (docs/design.md, "Values that last").
"""
