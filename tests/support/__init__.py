"""Streams, models and runs that several tests share."""
