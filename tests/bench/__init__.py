"""Benchmarks: ratios measured in one run, never a test that fails on time."""
