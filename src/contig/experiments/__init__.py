"""Experiments: many runs, planned, repeated over seeds and put side by side."""
