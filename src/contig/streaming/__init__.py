"""Walking a stream: score a batch, then observe it."""
