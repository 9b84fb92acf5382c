"""Which options mean the same connection, also when they hold functions that were made anew."""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from jetsync.client.options import ConnectOptions

__all__ = ["identity"]


def identity(options: ConnectOptions) -> Hashable:
    """Return a key that is equal for equal options. Does not block.

    A lambda or inner function is a new object each time its line runs: two of them count as one
    when they have the same code, and the variables that they read, their own and those of their
    module, have equal values. A value without a hash equals itself only.
    """
    return tuple(
        _option(getattr(options, field.name)) for field in dataclasses.fields(ConnectOptions)
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _Itself:
    """A value that has no hash: equal to the same object only, which is kept alive for that."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _option(value: Any) -> Hashable:
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, Mapping):
        return tuple(sorted(value.items()))
    if isinstance(value, types.FunctionType):
        return _function(value, {})
    return _value(value, {})


def _value(value: Any, seen: dict[types.FunctionType, int]) -> Hashable:
    if isinstance(value, types.FunctionType) and not _is_of_module(value):
        return _function(value, seen)
    try:
        hash(value)
    except Exception:  # noqa: BLE001 - the class of a user may raise anything
        return _Itself(value)
    return type(value), value


def _is_of_module(function: types.FunctionType) -> bool:
    module = sys.modules.get(function.__module__)
    return getattr(module, function.__qualname__, None) is function


def _function(function: types.FunctionType, seen: dict[types.FunctionType, int]) -> Hashable:
    """Return what two functions that do the same have in common. ``seen`` holds those that were
    met on the way: functions may name each other."""
    if function in seen:
        return seen[function]
    seen[function] = len(seen)
    variables = function.__globals__
    return (
        function.__module__,
        function.__code__.co_filename,
        function.__code__,
        tuple(_value(value, seen) for value in function.__defaults__ or ()),
        tuple(
            (name, _value(value, seen)) for name, value in (function.__kwdefaults__ or {}).items()
        ),
        tuple(_cell(cell, seen) for cell in function.__closure__ or ()),
        tuple(
            (name, _value(variables[name], seen))
            for name in dict.fromkeys(_names(function.__code__))
            if name in variables
        ),
    )


def _cell(cell: types.CellType, seen: dict[types.FunctionType, int]) -> Hashable:
    try:
        value = cell.cell_contents
    except ValueError:  # a variable without a value yet
        return _Itself(cell)
    return _value(value, seen)


def _names(code: types.CodeType) -> Iterator[str]:
    """Yield the names that code uses, among them the variables of its module, and those of the
    functions that are written inside of it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
