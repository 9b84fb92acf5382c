"""Message headers (ADR-4): a multimap that keeps case, order and repetition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

__all__ = ["HeaderInput", "Headers"]

HeaderInput = Mapping[str, str | bytes | Sequence[str | bytes]]
"""What publishing calls take: one value, or a list of values, per name."""


class Headers(Mapping[str, str]):
    """The headers of one message. Immutable, therefore safe to share between threads.

    ``headers["K"]`` is the first value of ``K``, ``get_all("K")`` all of them. Names are compared
    exactly (ADR-4: case-sensitive). Bytes that are not UTF-8 come out as surrogate escapes, so
    ``value.encode("utf-8", "surrogateescape")`` gives back exactly what was sent.
    """

    __slots__ = ("_items", "malformed")

    malformed: int
    """How many lines of the block were not ``name: value`` and were left out."""

    def __init__(
        self, items: Mapping[str, Sequence[str]] | None = None, malformed: int = 0
    ) -> None:
        self._items: dict[str, list[str]] = {k: list(v) for k, v in (items or {}).items()}
        self.malformed = malformed

    @classmethod
    def parse(cls, raw: bytes) -> Headers:
        """Read a header block from the wire. Never raises: what cannot be read is counted."""
        self = cls()
        if not raw:
            return self
        first, _, rest = raw.partition(b"\r\n")
        if not first.startswith(b"NATS/1.0"):
            # Some publishers send a block without the version line: read every line of it.
            rest = raw
        for line in rest.split(b"\r\n"):
            if not line:
                continue
            name, colon, value = line.partition(b":")
            if not colon or not name:
                self.malformed += 1
                continue
            key = name.decode("utf-8", "surrogateescape")
            self._items.setdefault(key, []).append(
                value.strip(b" \t").decode("utf-8", "surrogateescape")
            )
        return self

    def __getitem__(self, name: str) -> str:
        return self._items[name][0]

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
