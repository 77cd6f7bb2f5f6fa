"""`shoal source`: changes of a database, as Debezium writes them to Kafka, become Shoal's events, exactly once."""
