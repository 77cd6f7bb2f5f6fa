"""Groups of a redrawn table and the ledger."""
