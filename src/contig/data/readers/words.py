"""How names and values are told, and how they are understood."""

from __future__ import annotations

import re
from collections.abc import Sequence


def plain_name(name: str) -> str:
    """A column's name as it is compared: ``User ID`` is ``user_id``."""
    return re.sub(r"[\s.-]+", "_", name.strip().lower())


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def clipped(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:20]))
    return f"columns {shown}, ... ({len(names)} in all)" if len(names) > 20 else f"columns {shown}"
