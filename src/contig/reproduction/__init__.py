"""Reproduce the paper's tables and figures and check its claims."""
