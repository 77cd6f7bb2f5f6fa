"""The service: one process that ingests, plans, publishes and answers over HTTP."""
