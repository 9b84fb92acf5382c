"""A small progress display on stderr: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Protocol, TextIO

__all__ = ["Progress", "ProgressListener"]

_BAR_WIDTH = 16
_REDRAW_SECONDS = 0.1
_LINE_SECONDS = 10.0


class ProgressListener(Protocol):
    """Receives the steps of a long-running command. Calls come from one thread."""

    def begin(self, step: str, total: int) -> None:
        """Start a step of ``total`` units; 0 means that the amount is not known."""

    def advance(self, done: int) -> None:
        """Tell how much of the current step is done, counted from its beginning."""

    def finish(self) -> None:
        """End the current step."""


class Progress:
    """Show each step as one line: its name, a bar, how much is done and how fast.

    On a terminal the line is redrawn in place. Elsewhere (a pipe, a log file) a line is printed
    when a step begins, every ten seconds, and when it ends.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._step = ""
        self._total = self._done = 0
        self._started = self._shown = 0.0

    def begin(self, step: str, total: int) -> None:
        """Start a step of ``total`` units; 0 means that the amount is not known."""
        self._step, self._total, self._done = step, total, 0
        self._started = self._shown = time.monotonic()
        self._print(self._line() if self._terminal else f"{step} ...", last=not self._terminal)

    def advance(self, done: int) -> None:
        """Tell how much of the current step is done, counted from its beginning."""
        self._done = done
        now = time.monotonic()
        if now - self._shown >= (_REDRAW_SECONDS if self._terminal else _LINE_SECONDS):
            self._shown = now
            self._print(self._line(), last=not self._terminal)

    def finish(self) -> None:
        """End the current step and leave its final line standing."""
        if self._step:
            self._print(self._line(), last=True)
            self._step = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # An unfinished bar would share its line with the message that explains the failure.
        if self._step and self._terminal:
            self._print("", last=True)

    def _line(self) -> str:
        seconds = time.monotonic() - self._started
        if not self._total:
            done = f"{self._done:,} in " if self._done else ""
            return f"{self._step}: {done}{seconds:.1f} s"
        rate = f", {self._done / seconds:,.0f}/s" if self._done and seconds > 0 else ""
        if not self._terminal:
            return f"{self._step}: {self._done:,} of {self._total:,}, {seconds:.1f} s{rate}"
        filled = _BAR_WIDTH * min(self._done, self._total) // self._total
        bar = "#" * filled + "." * (_BAR_WIDTH - filled)
        return f"{self._step:<32}[{bar}] {self._done:,} in {seconds:.1f} s{rate}"

    def _print(self, line: str, *, last: bool) -> None:
        if self._terminal:
            import shutil

            width = shutil.get_terminal_size().columns - 1
            line = "\r\x1b[K" + line[:width]
        self._stream.write(line + ("\n" if last else ""))
        self._stream.flush()
