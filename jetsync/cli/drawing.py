"""Tables, named values and progress as rich draws them (extra ``cli``). Imported only where they
are drawn: on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from rich import box
from rich.console import Console, JustifyMethod
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as RichProgress
from rich.table import Table as RichTable
from rich.text import Text

from jetsync.cli.output import Fields, Table
from jetsync.cli.values import format_size

__all__ = ["Bar", "draw"]

_AROUND = 3
"""Characters around the text of a column: a space on both sides, and a line."""
_LEAST_VALUE = 16
"""Characters for a value that is worth a column of its own, and the spaces around it."""


def draw(view: Table | Fields, stream: TextIO, *, color: bool) -> bool:
    """Draw a table or named values on a terminal. Text of peers is drawn as it is, not as markup;
    what is wider than the terminal is wrapped in its column. Returns False, and draws nothing, on a
    terminal that is too narrow for the headings of a table, or for values beside their names."""
    console = _console(stream, color=color)
    if not isinstance(view, Table):
        fits = view.width + _LEAST_VALUE < console.width
        if fits:
            _draw_fields(view, console)
        return fits
    fits = sum(len(heading) + _AROUND for heading in view.headings) < console.width
    if fits:
        console.print(_table(view))
    return fits


def _console(stream: TextIO, *, color: bool) -> Console:
    return Console(
        file=stream,
        color_system="auto" if color else None,
        markup=False,
        emoji=False,
        highlight=False,
    )


def _table(view: Table) -> RichTable:
    drawn = RichTable(box=box.ROUNDED, border_style="dim", header_style="bold")
    for heading, right in zip(view.headings, view.right, strict=True):
        side: JustifyMethod = "right" if right else "left"
        drawn.add_column(heading, justify=side, overflow="fold", min_width=len(heading))
    for row in view.rows:
        drawn.add_row(*(Text(cell, style=view.styles.get(cell, "")) for cell in row))
    return drawn


def _draw_fields(view: Fields, console: Console) -> None:
    console.print(Text(view.title, style="bold"))
    width = view.width
    for section, fields in view.sections:
        console.print()
        if section:
            console.print(Text(section, style="bold"))
        grid = RichTable.grid(padding=(0, 2, 0, 0))
        grid.add_column(min_width=width, no_wrap=True, style="cyan")
        grid.add_column(overflow="fold")
        for name, value in fields:
            grid.add_row(Text(name), Text(value))
        console.print(Padding(grid, (0, 0, 0, 2), expand=False))


class Bar:
    """Show each step as a line with a bar that is drawn again in place. A context manager."""

    def __init__(self, stream: TextIO, *, color: bool, is_bytes: bool = False) -> None:
        self._console = _console(stream, color=color)
        self._is_bytes = is_bytes
        self._shown: RichProgress | None = None

    def begin(self, step: str, total: int) -> None:
        """Start a step of ``total`` units; 0 means that the amount is not known."""
        columns: list[ProgressColumn] = [TextColumn("{task.description:<32}", markup=False)]
        if total:
            columns.append(BarColumn(24))
        columns.append(_Count(format_size if self._is_bytes else "{:,.0f}".format))
        self._shown = RichProgress(
            *columns,
            TimeElapsedColumn(),
            console=self._console,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._shown.add_task(step, total=total or None)
        self._shown.start()

    def advance(self, done: int) -> None:
        """Tell how much of the current step is done, counted from its beginning."""
        if self._shown is not None:
            self._shown.update(self._shown.task_ids[0], completed=done)

    def finish(self) -> None:
        """End the current step and leave its final line standing."""
        if self._shown is not None:
            self._shown.stop()
            self._shown = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.finish()


class _Count(ProgressColumn):
    """How much is done of how much, and how fast since the beginning."""

    def __init__(self, text: Callable[[int], str]) -> None:
        super().__init__()
        self._text = text

    def render(self, task: Task) -> Text:
        if not task.completed:
            return Text("")
        of = f" of {self._text(int(task.total))}" if task.total else ""
        rate = self._text(int(task.completed / task.elapsed)) if task.elapsed else ""
        return Text(f"{self._text(int(task.completed))}{of}" + (f", {rate}/s" if rate else ""))
