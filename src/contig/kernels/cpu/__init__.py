"""Loops compiled by numba, one module per operation.

The loops are plain Python over numpy arrays, compiled on first use and cached on disk. Each one
computes a range of its rows or columns, so that threads never write to the same place. A loop and
everything it calls share a module: numba recompiles a cached loop only when its own file changes.
"""
