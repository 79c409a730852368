"""Tiny finished runs, shared by the tests of this folder."""

from support.training_fixtures import named, one_thread, run, stream, undrawn

__all__ = ["named", "one_thread", "run", "stream", "undrawn"]
