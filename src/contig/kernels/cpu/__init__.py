"""Loops compiled by numba, one module per operation.

The loops are plain Python over numpy arrays, compiled on first use and cached on disk. Each one
computes a range of its rows or columns, so that threads never write to the same place. A loop and
everything it calls share a module: numba recompiles a cached loop only when its own file changes.
"""

from pathlib import Path

from numba import config

from contig.caches import is_writable, writable_cache_folder

# numba keeps compiled loops next to their source, or in the user's home; a container may have neither.
if not is_writable(Path(config.CACHE_DIR or Path(__file__).parent)):
    config.CACHE_DIR = str(writable_cache_folder("numba"))
