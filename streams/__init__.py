"""The shell of Shoal: Kafka, Redis, files, commands and the clock. Private: `import shoal` has what is public."""
