"""Shoal's tests: unit, property, golden, integration, fault. `make test` runs all but the soak."""
