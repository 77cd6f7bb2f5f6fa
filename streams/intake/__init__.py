"""From a record on the events topic to the window in Redis."""
