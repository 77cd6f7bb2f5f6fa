"""The promise about permanent values, checked with exact counts (Bu)."""
