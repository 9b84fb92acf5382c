"""Values as people type and read them: durations, sizes, points in time, messages."""

from __future__ import annotations

import argparse
import base64
import os
import re
import stat
import sys
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from jetsync._printable import printable
from jetsync.cli.failure import UsageError

if TYPE_CHECKING:
    from jetsync.cli.output import Output

__all__ = [
    "ago",
    "body",
    "body_text",
    "coming",
    "count",
    "duration",
    "every",
    "format_duration",
    "format_size",
    "format_time",
    "header_text",
    "headers",
    "message",
    "metadata",
    "moment",
    "pause",
    "piped_body",
    "read_body",
    "size",
]

_UNITS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
    "y": 31536000.0,
}
_LONGEST_PAUSE = _UNITS["y"]
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d|w|y)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)
_NAMES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


# -- read ------------------------------------------------------------------------------------------


def duration(text: str) -> float:
    """Read "1m30s", "250ms", "7d" or a number of seconds."""
    try:
        return float(text)
    except ValueError:
        parts = _PART.findall(text)
    if not parts or "".join(map("".join, parts)) != text:
        raise argparse.ArgumentTypeError(f"not a duration such as 5s, 250ms or 7d: {text!r}")
    return float(sum(float(number) * _UNITS[unit] for number, unit in parts))


def pause(text: str) -> float:
    """Read a duration that a command can wait for."""
    seconds = duration(text)
    if not 0 <= seconds <= _LONGEST_PAUSE:
        raise argparse.ArgumentTypeError(f"no time to wait: {text!r}")
    return seconds


def size(text: str) -> int:
    """Read "10MiB", "1G", "1024" or "-1": bytes, in units of 1024 each."""
    if text == "-1":
        return -1
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"not a size such as 1024, 10MiB or 1G: {text!r}")
    power = " KMGT".index(found[2].upper() or " ")
    return round(float(found[1]) * 1024.0**power)


def count(text: str) -> int:
    """Read a number of 1 or more."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number of 1 or more, not {text!r}")
    return int(text)


def moment(text: str) -> datetime:
    """Read a point in time (RFC 3339; without a zone it is local), or a duration before now."""
    try:
        seconds: float | None = duration(text)
    except argparse.ArgumentTypeError:
        seconds = None
    if seconds is not None:
        try:
            return datetime.now(timezone.utc) - timedelta(seconds=seconds)
        except (OverflowError, ValueError):
            raise argparse.ArgumentTypeError(f"no point in time: {text!r}") from None
    try:
        found = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"neither a duration such as 1h nor a time such as 2026-01-31T12:00:00Z: {text!r}"
        ) from None
    return found.astimezone(timezone.utc)


def coming(text: str) -> datetime:
    """Read a point in time (RFC 3339; without a zone it is local), or a duration from now on."""
    try:
        seconds = duration(text)
    except argparse.ArgumentTypeError:
        return moment(text)
    try:
        return datetime.now(timezone.utc) + timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        raise argparse.ArgumentTypeError(f"no point in time: {text!r}") from None


def every(text: str) -> timedelta | str:
    """Read how often: a duration, or a pattern of cron with six fields, or one such as @daily."""
    if text.startswith("@") or len(text.split()) == 6:
        return text
    try:
        return timedelta(seconds=duration(text))
    except (OverflowError, ValueError):
        raise argparse.ArgumentTypeError(f"not how often: {text!r}") from None


def headers(given: Iterable[str]) -> dict[str, list[str]]:
    """Read headers of the form "Name:value"."""
    found: dict[str, list[str]] = {}
    for one in given:
        name, colon, value = one.partition(":")
        if not colon or not name:
            raise UsageError(f"a header has the form Name:value, not {one!r}")
        found.setdefault(name.strip(), []).append(value.strip())
    return found


def metadata(given: Iterable[str]) -> dict[str, str]:
    """Read metadata of the form "key=value"."""
    found = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not equals or not key:
            raise UsageError(f"metadata has the form key=value, not {one!r}")
        found[key] = value
    return found


def read_body(text: str | None) -> bytes:
    """Return the bytes to send: the text itself, or standard input for "-"."""
    if text == "-":
        return sys.stdin.buffer.read()
    return b"" if text is None else text.encode("utf-8", "surrogateescape")


def piped_body(out: Output, text: str | None) -> str | None:
    """Return BODY; "-" where there is none and a file or what another program prints is standard
    input, as the nats command takes it."""
    if text is not None or not _is_piped():
        return text
    out.note("the data of the message comes from standard input")
    return "-"


def _is_piped() -> bool:
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # there is none, or it is no file
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


# -- show ------------------------------------------------------------------------------------------


def format_size(number: int) -> str:
    """Return "1.5 MiB"; "unlimited" below 0."""
    if number < 0:
        return "unlimited"
    value, power = float(number), 0
    while value >= 1024 and power < len(_NAMES) - 1:
        value, power = value / 1024, power + 1
    return f"{value:.1f} {_NAMES[power]}" if power else f"{number} B"


def format_duration(seconds: float) -> str:
    """Return "2d3h", "1m30s" or "1.5ms": two units at most."""
    if seconds < 1:
        for unit in ("ms", "us", "ns"):
            if seconds >= _UNITS[unit] or unit == "ns":
                return f"{seconds / _UNITS[unit]:.3g}{unit}" if seconds else "0s"
    left, parts = seconds, []
    for unit in ("y", "d", "h", "m"):
        number = int(left // _UNITS[unit])
        left -= number * _UNITS[unit]
        if number:
            parts.append(f"{number}{unit}")
    if left >= 0.0005:
        parts.append(f"{left:.3g}s" if not parts else f"{int(left)}s")
    return "".join([part for part in parts if part != "0s"][:2]) or "0s"


def format_time(when: datetime | None) -> str | None:
    """Return "2026-11-22 20:15:01 UTC"; None for none."""
    if when is None or when.year <= 1:
        return None
    return when.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def ago(when: datetime | None) -> str | None:
    """Return how long ago that was, such as "5m10s"; None for none."""
    if when is None or when.year <= 1:
        return None
    seconds = (datetime.now(timezone.utc) - when).total_seconds()
    return "now" if seconds < 1 else format_duration(float(int(seconds)))


def message(msg: Any, **more: object) -> dict[str, object]:
    """Return the JSON fields of a message: subject, headers and data, and the given ones."""
    found: dict[str, object] = {"subject": msg.subject, **more}
    if msg.headers:
        found["headers"] = {name: msg.headers.get_all(name) for name in msg.headers}
    return {**found, **body(msg.data)}


def body(data: bytes) -> dict[str, object]:
    """Return data as a field of JSON: ``data`` if it is text, else ``data_b64``."""
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"data_b64": base64.b64encode(data).decode()}


def body_text(data: bytes) -> str:
    """Return data for a terminal: its lines, with control characters escaped."""
    lines = data.decode("utf-8", "backslashreplace").split("\n")
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in lines)


def header_text(msg: Any) -> str:
    """Return headers for a terminal, a line each."""
    return "".join(
        f"{printable(name)}: {printable(value)}\n"
        for name in msg.headers
        for value in msg.headers.get_all(name)
    )
