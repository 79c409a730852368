"""Heuristic baselines: models that score pairs by simple statistics of the past and learn nothing."""
