"""Tables for notebooks: every text is escaped, since peers choose names and descriptions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from html import escape
from typing import Any

from jetsync._printable import printable

__all__ = ["as_table"]

_LONGEST = 200


def as_table(title: str, rows: Iterable[tuple[str, Any]]) -> str:
    """Return a table of names and values as HTML. Does not block."""
    body = "".join(
        f"<tr><th>{escape(name)}</th><td>{_cell(value)}</td></tr>" for name, value in rows
    )
    return f"<table><caption>{escape(title)}</caption>{body}</table>"


def _cell(value: Any) -> str:
    if hasattr(value, "_repr_html_"):
        return str(value._repr_html_())
    if isinstance(value, list) and value and hasattr(value[0], "_repr_html_"):
        return "".join(_cell(one) for one in value)
    if isinstance(value, datetime):
        return escape(value.isoformat(sep=" "))
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = printable(str(value))
    return escape(text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ...")
