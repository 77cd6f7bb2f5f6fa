"""Shoal's tests: unit, property, golden, integration, fault, bench. `make test` runs all but the benchmarks and the soak."""
