"""Which options mean the same connection, also when they hold functions that were made anew."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Hashable
from typing import Any

from jetsync.client.options import ConnectOptions

__all__ = ["identity"]


def identity(options: ConnectOptions) -> Hashable:
    """Return a key that is equal for equal options. Does not block.

    A lambda or inner function is a new object each time its line runs: two of them count as one
    when they have the same code and their variables are equal. A function with variables that have
    no hash counts as itself only.
    """
    return tuple(
        _comparable(getattr(options, field.name)) for field in dataclasses.fields(ConnectOptions)
    )


def _comparable(value: Any) -> Hashable:
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, types.FunctionType):
        return value  # type: ignore[no-any-return]
    try:
        variables = tuple(cell.cell_contents for cell in value.__closure__ or ())
    except ValueError:  # a variable without a value yet
        return value
    same = (
        value.__module__,
        value.__code__.co_filename,
        value.__code__,
        value.__defaults__,
        tuple((value.__kwdefaults__ or {}).items()),
        variables,
    )
    try:
        hash(same)
    except TypeError:
        return value
    return same
