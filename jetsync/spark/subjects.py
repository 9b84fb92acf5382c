"""Subject patterns: what two of them have in common, and which rows pass some of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["common_pattern", "is_literal", "matches", "matching_rows"]


def is_literal(subject: str) -> bool:
    """Tell whether a text is one subject that a message can have: no wildcards, no empty tokens."""
    tokens = subject.split(".")
    return not ("" in tokens or "*" in tokens or ">" in tokens or re.search(r"\s", subject))


def common_pattern(one: str, two: str) -> str | None:
    """Return the pattern of the subjects that match both, or None if no subject does."""
    found: list[str] = []
    left, right = one.split("."), two.split(".")
    for index, (a, b) in enumerate(itertools.zip_longest(left, right)):
        if a is None or b is None:
            return None
        if a == ">":
            return ".".join(found + right[index:])
        if b == ">":
            return ".".join(found + left[index:])
        if "*" not in (a, b) and a != b:
            return None
        found.append(b if a == "*" else a)
    return ".".join(found)


def matching_rows(rows: pa.RecordBatch, patterns: Sequence[str]) -> pa.RecordBatch:
    """Return the rows whose column ``subject`` matches one of the patterns."""
    return rows.filter(matches(rows.column("subject"), patterns))


def matches(subjects: Any, patterns: Sequence[str]) -> Any:
    """Return for each text of a column whether it matches one of the patterns."""
    import pyarrow.compute as pc

    return pc.match_substring_regex(subjects, _regex(patterns))


def _regex(patterns: Sequence[str]) -> str:
    tokens = {"*": "[^.]+", ">": ".+"}
    alternatives = (
        r"\.".join(tokens.get(token) or re.escape(token) for token in pattern.split("."))
        for pattern in patterns
    )
    return f"^(?:{'|'.join(alternatives)})$"
