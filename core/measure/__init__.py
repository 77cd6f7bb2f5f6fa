"""What a release loses: metrics of its published records, and its answers to COUNT queries against the truth."""
