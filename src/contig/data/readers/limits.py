"""The limit for compressed files: a decompression bomb is rejected before it fills the memory.

What a file decompresses to may exceed 1 GiB only up to 100 times the size of the file. Files of real events
compress five- to twentyfold.
"""

from __future__ import annotations

from contig.errors import DataError

FREE_BYTES = 1 << 30
MAX_RATIO = 100


def size_limit(compressed: int) -> int:
    """Return how many bytes a file of ``compressed`` bytes may decompress to."""
    return max(FREE_BYTES, MAX_RATIO * compressed)


def too_large(path: object, limit: int) -> DataError:
    """Return the error for a file that decompresses to more than ``limit``."""
    return DataError(
        f"{path}: decompresses to more than {limit >> 20:,} MiB, over {MAX_RATIO} times its size, "
        "so it may be a decompression bomb; if you trust the file, decompress it first."
    )
