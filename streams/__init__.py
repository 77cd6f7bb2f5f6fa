"""The shell of Shoal: Kafka, Redis, the command line, and everything that happens in time."""
