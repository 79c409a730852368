"""Trained runs: their config, folder and answers."""
