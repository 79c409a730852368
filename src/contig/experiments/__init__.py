"""Experiments: many runs, planned, repeated over seeds and compared."""
