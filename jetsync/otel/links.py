"""The links of a span to those that sent its messages, made when they are read.

A link costs the SDK a tenth of a span, and the span of a fetch has up to 128. An exporter reads
them, mostly on a thread of its own. Needs the SDK of OpenTelemetry.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import Link, SpanContext

__all__ = ["LaterLinks"]


class LaterLinks(BoundedList[Link]):
    """Links as a span of the SDK keeps them. The first reading calls ``make``, and takes the first
    ``most``; the others are counted as dropped, as those are that the span has no room for."""

    def __init__(self, make: Callable[[], Iterable[SpanContext]], most: int) -> None:
        self._make = make
        self._most = most
        self._room: int | None = None  # any number

    def give_to(self, span: Any) -> None:
        """Make these the links of a span that was made without. The SDK has no call for links that
        are made later, so they take the place of the empty list of its span; another kind of span
        gets them one by one, now."""
        limits: Any = getattr(span, "_limits", None)
        if type(getattr(span, "_links", None)) is BoundedList and hasattr(limits, "max_links"):
            self._room = limits.max_links
            span._links = self
        elif span.is_recording():
            for link in self:
                span.add_link(link.context)

    @cached_property
    def _made(self) -> BoundedList[Link]:
        senders = list(self._make())
        links = [Link(sender, {}) for sender in senders[: self._most]]
        made: BoundedList[Link] = BoundedList.from_seq(self._room, links)
        made.dropped += len(senders) - len(links)
        return made

    @property
    def dropped(self) -> int:  # type: ignore[override]
        return self._made.dropped

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._made)

    def __iter__(self) -> Iterator[Link]:
        return iter(self._made)

    def __getitem__(self, index: Any) -> Any:
        return self._made[index]

    def append(self, item: Any) -> None:
        self._made.append(item)

    def extend(self, seq: Any) -> None:
        self._made.extend(seq)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self._made, memo)

    def __repr__(self) -> str:
        return repr(self._made)
