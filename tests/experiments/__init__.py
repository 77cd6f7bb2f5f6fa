"""Experiments on real and generated data: figures as JSON, plots as PNG, shown in docs/experiments.md."""
