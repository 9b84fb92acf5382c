"""The output of commands: a JSON document, or text for people. Results go to stdout, all else to
stderr. On a terminal rich draws tables (extra ``cli``); elsewhere, and without it, they are
aligned text."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, TextIO

from jetsync._printable import printable, printable_json
from jetsync.cli.streams import accept_all, give_up

__all__ = ["Fields", "Output", "Table", "document", "json_text", "wants_color"]


class Table:
    """Rows below headings; a heading that begins with ">" belongs to numbers. ``empty`` is what is
    said instead when there are no rows; ``styles`` gives cells of some words a colour."""

    def __init__(
        self,
        headings: Sequence[str],
        rows: Iterable[Sequence[object]],
        empty: str = "nothing",
        styles: Mapping[str, str] | None = None,
    ) -> None:
        self.right = [heading.startswith(">") for heading in headings]
        self.headings = [heading.lstrip(">") for heading in headings]
        self.rows = [[_cell(value) for value in row] for row in rows]
        self.empty = empty
        self.styles = styles or {}

    def lines(self, style: Callable[[str, str], str]) -> list[str]:
        """Return the lines of text."""
        if not self.rows:
            return [self.empty]
        lines = [self.headings, *self.rows]
        widths = [max(_width(line[column]) for line in lines) for column in range(len(lines[0]))]
        made = ["  ".join(self._padded(line, widths)).rstrip() for line in lines]
        return [style("bold", made[0]), *made[1:]]

    def _padded(self, line: Sequence[str], widths: Sequence[int]) -> list[str]:
        found = []
        for text, width, right in zip(line, widths, self.right, strict=True):
            space = " " * (width - _width(text))
            found.append(space + text if right else text + space)
        return found


class Fields:
    """A title and named values, in sections: ``Fields("Stream A", {"State": {"Messages": 1}})``.
    Values that are None are left out, lists become a line per item."""

    def __init__(self, title: str, sections: dict[str, dict[str, object]]) -> None:
        self.title = printable(title)
        self.sections = [
            (section, lines) for section, fields in sections.items() if (lines := _lines(fields))
        ]

    @property
    def width(self) -> int:
        """The length of the longest name."""
        return max((len(name) for _, fields in self.sections for name, _ in fields), default=0)

    def lines(self, style: Callable[[str, str], str]) -> list[str]:
        """Return the lines of text."""
        lines, width = [style("bold", self.title)], self.width
        for section, fields in self.sections:
            lines.append("")
            if section:
                lines.append(style("bold", section))
            lines += [f"  {name:<{width}}  {value}" for name, value in fields]
        return lines


def _lines(fields: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the names and values of a section; items of a list stand below the first one."""
    found = []
    for name, value in fields.items():
        if value in (None, []):
            continue
        items = list(value) if isinstance(value, (list, tuple)) else [value]
        found += [("" if number else name, _cell(item)) for number, item in enumerate(items)]
    return found


View = Table | Fields | str | Callable[[], "Table | Fields | str"]


class Output:
    """Prints for one run of a command. ``json``: documents are wanted instead of text. ``color``:
    None where a terminal takes colours."""

    def __init__(
        self,
        *,
        json: bool = False,
        quiet: bool = False,
        color: bool | None = None,
        out: TextIO | None = None,
        err: TextIO | None = None,
    ) -> None:
        self.json = json
        self.quiet = quiet
        self._out = sys.stdout if out is None else out
        self._err = sys.stderr if err is None else err
        accept_all(self._out, json=json)
        self.color = color
        self._color = wants_color(self._out, color)

    @property
    def is_terminal(self) -> bool:
        """Whether stdout is a terminal that a person reads."""
        return self._out.isatty()

    def show(self, data: Any, view: View) -> None:
        """Print a result: ``data`` as one JSON document, or ``view`` as text."""
        if self.json:
            self._print(json_text(document(data), indent=2))
            return
        if callable(view):
            view = view()
        if isinstance(view, str):
            self._print(printable(view))
        elif not self._drawn(view):
            self._print("\n".join(view.lines(self.style)))

    def names(self, names: list[str], none: str) -> None:
        """Print a list of names, a line each and nothing else, for programs that read lines."""
        if self.json:
            self.show(names, "")
        elif names:
            self._print("\n".join(map(printable, names)))
        else:
            self.note(none)

    def _drawn(self, view: Table | Fields) -> bool:
        """Let rich draw a table where it can."""
        if not self.is_terminal or (isinstance(view, Table) and not view.rows):
            return False
        try:
            from jetsync.cli.drawing import draw
        except ImportError:
            return False
        return draw(view, self._out, color=self._color)

    def item(self, data: Any, view: Callable[[], str]) -> None:
        """Print one item of a sequence: a line of JSON, or text."""
        if self.json:
            self._print(json_text(document(data)))
        else:
            self._print(view())

    def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        self._out.flush()
        self._out.buffer.write(data)
        self._out.buffer.flush()

    def note(self, text: str) -> None:
        """Print progress for a person on stderr; not with ``--quiet`` or ``--json``."""
        if not (self.quiet or self.json):
            print(printable(text), file=self._err, flush=True)

    def error(self, error: BaseException, sentence: str) -> None:
        """Print why a command failed: a sentence on stderr, with ``--json`` an object as well.
        What cannot be printed, since a disk is full or the reader is gone, is left out."""
        with contextlib.suppress(OSError):
            print(f"jetsync: {printable(sentence)}", file=self._err, flush=True)
        if self.json:
            code = getattr(error, "err_code", None) or None  # the library has 0 for none
            about = {"type": type(error).__name__, "message": sentence, "err_code": code}
            with contextlib.suppress(OSError):
                self._print(json_text({"error": about}))

    def style(self, name: str, text: str) -> str:
        """Return a text as bold, dim, red, green or yellow, where the output takes colours."""
        return f"\x1b[{_STYLES[name]}m{text}\x1b[0m" if self._color else text

    def _print(self, text: str) -> None:
        try:
            print(text, file=self._out, flush=True)
        except OSError:
            give_up(self._out)
            raise


def wants_color(stream: TextIO, asked: bool | None) -> bool:
    """Whether what is printed on a stream has colours: as asked, else if it is a terminal."""
    return stream.isatty() and not os.environ.get("NO_COLOR") if asked is None else asked


_STYLES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33}


def document(value: Any) -> Any:
    """Return the JSON form of a value: configurations and infos with all fields, as a server writes
    them (durations in nanoseconds, times as RFC 3339)."""
    from jetsync.jetstream._wire import WireObject

    if isinstance(value, WireObject):
        return _whole(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: document(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, dict):
        return {str(key): document(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [document(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value


def json_text(value: Any, indent: int | None = None) -> str:
    """Return a document as text that is always UTF-8 and steers no terminal."""
    return printable_json(json.dumps(value, indent=indent, ensure_ascii=False))


def _whole(value: Any) -> dict[str, Any]:
    """The wire form with the fields that a server leaves out because they have their default."""
    sent = value.to_wire(include_extra=True)
    found: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        item = getattr(value, field.name)
        if item is None or "codec" not in field.metadata:
            continue
        plain = document(item)
        if isinstance(item, float):  # durations, all of them
            plain = sent.get(field.name, round(item * 1e9))
        elif isinstance(item, (datetime, str, int)):
            plain = sent.get(field.name, plain)
        elif isinstance(item, (list, tuple)) and item and isinstance(item[0], float):
            plain = sent.get(field.name, [])
        found[field.name] = plain
    found.update({key: item for key, item in sent.items() if key not in found})
    return found


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Enum):
        return str(value.value)
    return printable(str(value))


def _width(text: str) -> int:
    """The columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )
