"""What several tests share: judges, engines, histories and services."""
