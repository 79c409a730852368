"""Compiled code, one dispatch per operation."""
