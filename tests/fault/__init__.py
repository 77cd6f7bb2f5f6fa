"""Tests that kill processes and services at a chosen moment and ask a judge who reads only the topics."""
