"""The steps of an observed call: its beginning and its end, or no more than a note of it."""

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, TypeVar, final

MOST_NOTED: int

_About = TypeVar("_About")
_Note = TypeVar("_Note")
_R = TypeVar("_R")

class _Hooked(Protocol):
    hooks: Any

    def drop(self, method: str) -> object: ...

class _Watch(Protocol):
    def noted(self) -> object: ...

def guarded(watch: _Hooked, method: str, *arguments: object) -> Any:
    """Call this method of `watch.hooks` and return what it returns. One that raises is dropped by
    `watch.drop(method)`: then None."""

@final
class Running:
    """An operation from its beginning to its end: the block of this context manager, or from
    `begin` to `end`. The hooks of `watch` are told of both."""

    op: Any

    def __new__(cls, watch: _Hooked, op: object) -> Running: ...
    def __enter__(self) -> Any: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def begin(self) -> Any:
        """Tell of the beginning. Returns the operation."""

    def end(self, error: BaseException | None) -> None:
        """Tell of the end, with this error or with None."""

@final
class Noted:
    """A call that observers leave out, which begins now. Its note is made at the end of the block
    of this context manager, or by `end`.

    `notes` gets it (None: there is no note), and `watch.noted()` is called when MOST_NOTED wait.
    `about` is the nature of the call, `count` the number of its messages, to be set by its end.
    """

    count: int | None

    def __new__(
        cls, watch: _Watch, notes: deque[Any] | None, about: object, count: int | None = None
    ) -> Noted: ...
    def __enter__(self) -> Noted: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def end(self, error: BaseException | None) -> None:
        """The call ended, with this error or with None."""

def call_noted(
    watch: _Watch,
    notes: deque[Any],
    about: object,
    count: int | None,
    function: Callable[..., _R],
    arguments: tuple[Any, ...],
    options: dict[str, Any] = ...,
) -> _R:
    """Call a function and return what it returns, and leave a note of the call as `Noted` does.

    `count` None: as many messages as what it returns is long.
    """

def take_notes(notes: deque[_Note]) -> list[_Note]:
    """Take the notes that wait. Other threads may add more at any time, and take them."""

def sum_notes(
    notes: list[tuple[_About, str | None, int | None, float]],
) -> dict[tuple[_About, str | None], int]:
    """Return how many messages calls had, by what they were about and what they raised."""
