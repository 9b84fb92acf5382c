"""Message headers (ADR-4): a multimap that keeps case, order and repetition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar, overload

__all__ = ["HeaderInput", "Headers"]

HeaderInput = Mapping[str, str | bytes | Sequence[str | bytes]]
"""Headers for publishing calls: one value, or a list of values, per name."""


_VERSION = b"NATS/1.0"
SEARCHED = 4096
"""Bytes of the largest block that is searched for a single name. A larger one is read as a whole at
first use: searching it again for each of its names would take time quadratic in their number."""

_D = TypeVar("_D")


class Headers(Mapping[str, str]):
    """The headers of one message. Immutable, therefore safe to share between threads.

    ``headers["K"]`` is the first value of ``K``, ``get_all("K")`` all of them. Names are compared
    exactly (ADR-4: case-sensitive). Bytes that are not UTF-8 come out as surrogate escapes, so
    ``value.encode("utf-8", "surrogateescape")`` gives back exactly what was sent.
    """

    # A block from the wire is read as a whole only when more is asked for than the first value of a
    # name. Two threads may do that at once: they come to the same.
    __slots__ = ("_malformed", "_raw", "_read")

    _raw: bytes
    _read: dict[str, list[str]] | None
    _malformed: int

    def __init__(
        self, items: Mapping[str, Sequence[str]] | None = None, malformed: int = 0
    ) -> None:
        self._raw = b""
        self._read = {k: list(v) for k, v in (items or {}).items()}
        self._malformed = malformed

    @classmethod
    def parse(cls, raw: bytes) -> Headers:
        """Read a header block from the wire. Never raises: what cannot be read is counted."""
        self = cls.__new__(cls)
        self._raw = raw
        self._read = None
        self._malformed = 0
        return self

    @property
    def malformed(self) -> int:
        """How many lines of the block were not ``name: value`` and were left out."""
        if self._read is None:
            self._load()
        return self._malformed

    @property
    def _items(self) -> dict[str, list[str]]:
        return self._load() if self._read is None else self._read

    def _load(self) -> dict[str, list[str]]:
        """Read the whole block."""
        items: dict[str, list[str]] = {}
        malformed = 0
        first, _, rest = self._raw.partition(b"\r\n")
        if not first.startswith(_VERSION):
            # Some publishers send a block without the version line: read every line of it.
            rest = self._raw
        for line in rest.split(b"\r\n"):
            if not line:
                continue
            name, colon, value = line.partition(b":")
            if not colon or not name:
                malformed += 1
                continue
            key = name.decode("utf-8", "surrogateescape")
            items.setdefault(key, []).append(value.strip(b" \t").decode("utf-8", "surrogateescape"))
        self._malformed = malformed
        self._read = items
        return items

    def _first(self, name: str) -> str | None:
        """The first value of a name, or None; of an unread block only that line is read."""
        raw = self._raw
        if (
            self._read is not None
            or len(raw) > SEARCHED
            or not isinstance(name, str)
            or not name.isascii()
            or ":" in name
            or "\r" in name
            or not raw.startswith(_VERSION)
        ):
            values = self._items.get(name)
            return values[0] if values else None
        start = raw.find(b"\r\n" + name.encode() + b":") if name else -1
        if start < 0:
            return None
        start += len(name) + 3
        end = raw.find(b"\r\n", start)
        value = raw[start:end] if end >= 0 else raw[start:]
        return value.strip(b" \t").decode("utf-8", "surrogateescape")

    @overload
    def get(self, name: str, /) -> str | None: ...
    @overload
    def get(self, name: str, /, default: str | _D) -> str | _D: ...
    def get(self, name: str, /, default: object = None) -> object:
        """Return the first value of ``name``, or ``default`` if there is none."""
        value = self._first(name)
        return default if value is None else value

    def __getitem__(self, name: str) -> str:
        value = self._first(name)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def get_all(self, name: str) -> list[str]:
        """Return every value of ``name`` in the order they were sent; empty if there is none."""
        return list(self._items.get(name, ()))

    def to_dict(self) -> dict[str, list[str]]:
        """Return a plain dict of lists: a copy that may be changed and published again."""
        return {name: list(values) for name, values in self._items.items()}

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Headers):
            return self._items == other._items
        if isinstance(other, Mapping):
            return self.to_dict() == {
                k: [v] if isinstance(v, str) else list(v) for k, v in other.items()
            }
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple((name, *values) for name, values in self._items.items()))

    def __repr__(self) -> str:
        return f"Headers({self._items!r})"
