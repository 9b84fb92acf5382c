"""Tables for notebooks: every text is escaped, since peers choose names and descriptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from typing import Any

from jetsync._printable import printable

__all__ = ["as_rows", "as_table"]

_LONGEST = 200


def as_table(title: str, rows: Iterable[tuple[str, Any]]) -> str:
    """Return a table of names and values as HTML. Does not block."""
    body = "".join(
        f"<tr><th>{escape(name)}</th><td>{_cell(value)}</td></tr>" for name, value in rows
    )
    return f"<table><caption>{escape(title)}</caption>{body}</table>"


def as_rows(title: str, names: Sequence[str], rows: Iterable[Sequence[Any]], left_out: int) -> str:
    """Return a table with a heading and one line for each of ``rows`` as HTML; a last line says how
    many were ``left_out``. Does not block."""
    heading = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(v)}</td>' for v in row)}</tr>" for row in rows)
    if left_out:
        body += f'<tr><td colspan="{len(names)}">... and {left_out:,} more</td></tr>'
    caption = escape(printable(title))
    return f"<table><caption>{caption}</caption><tr>{heading}</tr>{body}</table>"


def _cell(value: Any) -> str:
    if hasattr(value, "_repr_html_"):
        return str(value._repr_html_())
    if isinstance(value, list) and value and hasattr(value[0], "_repr_html_"):
        return "".join(_cell(one) for one in value)
    if isinstance(value, datetime):
        return escape(value.isoformat(sep=" "))
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, bytes):
        value = value[:_LONGEST].decode(errors="replace") + " ..." * (len(value) > _LONGEST)
    text = printable(str(value))
    return escape(text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ...")
