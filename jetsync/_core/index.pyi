"""Index: several values under one key."""

from collections.abc import Hashable
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V", bound=Hashable)

class Index(Generic[_K, _V]):
    """Several values under one key. Thread-safe; takes no lock.

    Hashing and comparing keys and values must not need Python code.
    """

    def add(self, key: _K, value: _V) -> None:
        """Add a value, which is no dict; an equal one counts once."""

    def discard(self, key: _K, value: _V) -> None:
        """Remove a value, if it is there."""

    def get(self, key: _K) -> list[_V]:
        """Return the values under a key in a new list."""
