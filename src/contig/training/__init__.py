"""The training loop, and the runs that it writes."""
