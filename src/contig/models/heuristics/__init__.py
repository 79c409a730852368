"""Baselines that learn nothing."""
