"""What is checked in a table of each model, redrawn or lasting: its criteria, and the figures of its report."""
