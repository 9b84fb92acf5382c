"""The screen of ``jetsync top``, drawn in place by textual (extra ``cli``). Imported only where it
is shown: on a terminal."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import DataTable, Footer, Static

from jetsync._counted import counted
from jetsync._printable import printable
from jetsync._threads import start_thread
from jetsync.cli import interrupts
from jetsync.cli.terminal_guard import TerminalGuard
from jetsync.cli.top import HEADINGS, cells
from jetsync.cli.top_rates import Row, Sampler, by_rate, rows_in_order
from jetsync.cli.values import format_duration
from jetsync.errors import ConnectionClosedError, Error

__all__ = ["Seen", "TopScreen", "show"]

Looked = list[list[Row]]
_ORDERS: tuple[tuple[str, Callable[[Sequence[Row]], Any]], ...] = (
    ("rate", by_rate),
    ("messages", lambda rows: (-rows[0].messages, rows[0].stream)),
    ("name", lambda rows: rows[0].stream),
)


def show(sampler: Sampler, looked: Looked, interval: float, *, color: bool | None) -> None:
    """Show the screen until a key or a signal ends it. Raises KeyboardInterrupt for Ctrl-C and
    signals, and ConnectionClosedError when the connection has ended."""
    if color is False:
        os.environ["NO_COLOR"] = "1"
    screen = TopScreen(sampler, looked, interval)
    with TerminalGuard(sys.stderr.fileno(), screen.interrupt):
        screen.run()
    if screen.error is not None:
        raise screen.error
    if screen.signum is not None:
        interrupts.raise_for(screen.signum)


class Seen(Message):
    """Another look at the streams, or why there is none."""

    def __init__(self, looked: Looked | None, error: Error | None = None) -> None:
        super().__init__()
        self.looked = looked
        self.error = error


class TopScreen(App[None]):
    """Streams and their consumers in a table, looked at again and again by a thread."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "DataTable { height: 1fr; } Static { height: 1; padding: 0 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("s", "order", "order"),
        Binding("space", "hold", "hold"),
        Binding("ctrl+c", "interrupt", "interrupt", show=False, priority=True),
    ]

    def __init__(self, sampler: Sampler, looked: Looked, interval: float) -> None:
        super().__init__()
        self.signum: int | None = None
        self.error: Error | None = None
        self._sampler = sampler
        self._seen = self._looked = looked
        self._interval = interval
        self._order = 0
        self._is_held = False
        self._soon: Callable[..., object] | None = None
        self._ended = threading.Event()

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        yield Static(id="about")
        yield DataTable(cursor_type="none", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to look."""
        table = self.query_one(DataTable)
        for heading in HEADINGS:
            justify = "right" if heading.startswith(">") else "left"
            table.add_column(Text(heading.lstrip(">"), justify=justify))  # type: ignore[arg-type]
        self._show()
        self._soon = asyncio.get_running_loop().call_soon_threadsafe
        if self.signum is not None:  # since before the screen
            self.exit()
        start_thread("top", self._look)

    def on_unmount(self) -> None:
        """End the thread, which nothing waits for: it may be in the middle of a look."""
        self._ended.set()
        self._soon = None

    def on_seen(self, seen: Seen) -> None:
        """Show another look."""
        if isinstance(seen.error, ConnectionClosedError):
            self.error = seen.error
            self.exit()
        if seen.looked is not None:
            self._seen = seen.looked
        if not self._is_held:
            self._looked = self._seen
            self._show(seen.error)

    def action_order(self) -> None:
        """Put the streams into another order."""
        self._order = (self._order + 1) % len(_ORDERS)
        self._show()

    def action_hold(self) -> None:
        """Hold the picture, or let it go on."""
        self._is_held = not self._is_held
        if not self._is_held:
            self._looked = self._seen
        self._show()

    def action_interrupt(self) -> None:
        """End as Ctrl-C ends other commands."""
        self.interrupt(interrupts.SIGNALS[0])

    def interrupt(self, signum: int) -> None:
        """End for a signal. Thread-safe, also in a signal handler."""
        self.signum = signum
        if self._soon is not None:
            self._soon(self.exit)

    def _look(self) -> None:
        """The thread that looks."""
        while not self._ended.wait(self._interval):
            try:
                seen = Seen(self._sampler.look())
            except Error as error:
                seen = Seen(None, error)
            if not self._ended.is_set():
                self.post_message(seen)

    def _show(self, error: Error | None = None) -> None:
        name, order = _ORDERS[self._order]
        parts = [counted(len(self._looked), "stream"), f"every {format_duration(self._interval)}"]
        parts += [f"by {name}", *(["held"] if self._is_held else [])]
        about = Text(", ".join(parts), style="bold")
        if error is not None:
            about = Text(printable(f"no answer: {error}"), style="bold red")
        self.query_one("#about", Static).update(about)
        table = self.query_one(DataTable)
        at = table.scroll_y
        table.clear()
        for row in rows_in_order(self._looked, order):
            table.add_row(*_drawn(row))
        table.scroll_to(y=at, animate=False)


def _drawn(row: Row) -> list[Text]:
    style = "bold" if row.consumer is None else ""
    texts = []
    for heading, cell in zip(HEADINGS, cells(row), strict=True):
        justify = "right" if heading.startswith(">") else "left"
        texts.append(Text(printable(str(cell)), style=style, justify=justify))  # type: ignore[arg-type]
    return texts
