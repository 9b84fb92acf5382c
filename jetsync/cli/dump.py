"""Messages as files, one each, for ``jetsync sub --dump``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from jetsync.cli.output import Output, document, json_text

__all__ = ["STDOUT", "to_folder", "to_stdout"]

STDOUT = "-"
"""The folder that stands for standard output."""


def to_folder(name: str) -> Callable[[int, Mapping[str, object]], None]:
    """Return what writes a message as JSON to a file with its number for a name, over one that is
    there. Makes the folder, which only its user reads, like the files. Raises OSError."""
    folder = Path(name)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(number: int, message: Mapping[str, object]) -> None:
        path = folder / f"{number}.json"
        with open(path, "w", encoding="utf-8", opener=_private) as file:
            file.write(_text(message) + "\n")

    return write


def to_stdout(out: Output) -> Callable[[int, Mapping[str, object]], None]:
    """Return what writes a message as JSON with a NUL behind it, as ``xargs -0`` reads it."""
    return lambda _, message: out.write(_text(message).encode() + b"\0")


def _text(message: Mapping[str, object]) -> str:
    return json_text(document(message))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
