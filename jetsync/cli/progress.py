"""The progress of what takes long, on stderr: a bar where rich is installed (extra ``cli``) and
stderr is a terminal, else a plain line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TextIO

from jetsync.cli.invocation import Invocation
from jetsync.cli.output import wants_color
from jetsync.cli.values import format_size

if TYPE_CHECKING:
    from jetsync.cli.drawing import Bar

__all__ = ["Lines", "ProgressListener", "display", "progress"]

_LINE_SECONDS = 10.0


class ProgressListener(Protocol):
    """Receives the steps of a long-running command. Calls come from one thread."""

    def begin(self, step: str, total: int) -> None:
        """Start a step of ``total`` units; 0 means that the amount is not known."""

    def advance(self, done: int) -> None:
        """Tell how much of the current step is done, counted from its beginning."""

    def finish(self) -> None:
        """End the current step."""


def display(
    stream: TextIO | None = None, *, color: bool | None = None, is_bytes: bool = False
) -> Bar | Lines:
    """Return what shows progress on a stream (default: stderr): a context manager and listener.

    ``color``: None where the terminal takes them. ``is_bytes``: what is counted are bytes.
    """
    stream = sys.stderr if stream is None else stream
    if stream.isatty():
        try:
            from jetsync.cli.drawing import Bar
        except ImportError:
            return Lines(stream, is_bytes=is_bytes)
        return Bar(stream, color=wants_color(stream, color), is_bytes=is_bytes)
    return Lines(stream, is_bytes=is_bytes)


@contextmanager
def progress(
    invocation: Invocation, step: str, *, is_bytes: bool = False
) -> Iterator[Callable[[int, int], None] | None]:
    """Show how far a step of a command is: gives a function of what is done and the total, or None
    with --json and --quiet, where nothing is shown."""
    out = invocation.out
    if out.json or out.quiet:
        yield None
        return
    begun = False
    with display(color=out.color, is_bytes=is_bytes) as shown:

        def advance(done: int, total: int) -> None:
            nonlocal begun
            if not begun:
                begun = True
                shown.begin(step, total)
            shown.advance(done)

        yield advance
        shown.finish()


class Lines:
    """Print a line when a step begins, every ten seconds, and when it ends. A context manager."""

    def __init__(self, stream: TextIO | None = None, *, is_bytes: bool = False) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._amount: Callable[[int], str] = format_size if is_bytes else "{:,}".format
        self._step = ""
        self._total = self._done = 0
        self._started = self._shown = 0.0

    def begin(self, step: str, total: int) -> None:
        """Start a step of ``total`` units; 0 means that the amount is not known."""
        self._step, self._total, self._done = step, total, 0
        self._started = self._shown = time.monotonic()
        self._print(f"{step} ...")

    def advance(self, done: int) -> None:
        """Tell how much of the current step is done, counted from its beginning."""
        self._done = done
        now = time.monotonic()
        if now - self._shown >= _LINE_SECONDS:
            self._shown = now
            self._print(self._line())

    def finish(self) -> None:
        """End the current step."""
        if self._step:
            self._print(self._line())
            self._step = ""

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Print nothing: what failed is said by the command."""

    def _line(self) -> str:
        seconds = time.monotonic() - self._started
        if not self._total:
            done = f"{self._amount(self._done)} in " if self._done else ""
            return f"{self._step}: {done}{seconds:.1f} s"
        done, total = self._amount(self._done), self._amount(self._total)
        each = round(self._done / seconds) if seconds > 0 else 0
        rate = f", {self._amount(each)}/s" if each else ""
        return f"{self._step}: {done} of {total}, {seconds:.1f} s{rate}"

    def _print(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()
