"""A real Kafka, a real Redis, and workers as processes."""
