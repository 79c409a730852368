"""Column names: how they are compared, and how they are listed in messages."""

from __future__ import annotations

import re
from collections.abc import Sequence

from contig.wording import counted


def plain_name(name: str) -> str:
    """Return a name in the form used to compare: ``User ID`` is ``user_id``."""
    return re.sub(r"[\s.-]+", "_", name.strip().lower())


def listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:20]))
    return f"columns {shown}, ... ({len(names)} in all)" if len(names) > 20 else f"columns {shown}"


def ignored_columns(origin: object, names: Sequence[str]) -> str:
    """Return a notice of columns that are not used."""
    shown = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
    return f"{origin}: ignored {counted(len(names), 'column')}: {shown}."
