"""Names of ``**fields``: spells_out shows them in help() and completion, check_options checks them.

Room:      hallway. May import: the standard library.
Touch me:  when a call takes the fields of a configuration, or the options of another call.
Not here:  what type checkers see: the TypedDict beside each configuration.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType
from typing import Any, TypeVar, is_typeddict

__all__ = ["check_options", "spells_out"]

_KEYWORD = inspect.Parameter.KEYWORD_ONLY

F = TypeVar("F", bound=Callable[..., Any])


def check_options(call: str, given: Iterable[str], fields: type) -> None:
    """Raise TypeError for an option that the call does not take, in Python's own words.

    For ``**options`` that are handed on to another function: that one would name itself. ``fields``
    is the TypedDict or the dataclass of the options. Does not block.
    """
    known = fields.__annotations__
    for name in given:
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, 1)
            advice = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}{advice}")


def spells_out(source: Any, *, without: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Show the ``**fields`` of a function one by one where its signature is read at run time.

    help(), inspect.signature() and the completion of IPython and Jupyter then name them, with
    types and defaults, which are looked up when the signature is read first. ``source`` is a
    dataclass or a TypedDict, whose fields they are, or a callable, whose keyword-only parameters
    they are, or a text ``module:class`` for one that is imported only then; ``without`` names those
    that the function does not take. A field of a TypedDict has the default ``...``: what is not
    given stays as it is. The call itself is not changed.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        function.__signature__ = _Later(signature, source, without)  # type: ignore[attr-defined]
        return function

    return decorate


class _Later(inspect.Signature):
    """A signature that spells out, and imports what it spells out, when its parameters are read
    first: few programs do, and the import of a room that makes buckets brings no rooms of buckets.
    """

    def __init__(self, short: inspect.Signature, source: Any, without: tuple[str, ...]) -> None:
        super().__init__(return_annotation=short.return_annotation)
        self._short = short
        self._source = source
        self._without = without
        self._whole: inspect.Signature | None = None

    @property
    def parameters(self) -> MappingProxyType[str, inspect.Parameter]:
        if self._whole is None:
            source = self._source
            if isinstance(source, str):
                module, _, name = source.partition(":")
                source = getattr(importlib.import_module(module), name)
            self._whole = _spelled_out(self._short, source, self._without)
        return self._whole.parameters

    def replace(self, **changes: Any) -> inspect.Signature:  # type: ignore[override]
        """Return a plain signature with these changes."""
        changes.setdefault("parameters", list(self.parameters.values()))
        return self._short.replace(**changes)


def _spelled_out(
    signature: inspect.Signature, source: Any, without: tuple[str, ...]
) -> inspect.Signature:
    *own, last = signature.parameters.values()  # the last one is ``**fields``
    taken = {*signature.parameters, *without}
    more = [p for p in _keywords(source) if p.name not in taken]
    return signature.replace(parameters=[*own, *more, last])


def _keywords(source: Any) -> Iterator[inspect.Parameter]:
    if is_typeddict(source):
        for name, annotation in source.__annotations__.items():
            yield inspect.Parameter(name, _KEYWORD, default=..., annotation=annotation)
        return
    if not dataclasses.is_dataclass(source):
        for parameter in inspect.signature(source).parameters.values():
            if parameter.kind is _KEYWORD:
                yield parameter
        return
    for field in dataclasses.fields(source):
        if not field.init or field.name.startswith("_"):
            continue
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        yield inspect.Parameter(
            field.name,
            _KEYWORD,
            default=inspect.Parameter.empty if default is dataclasses.MISSING else default,
            annotation=field.type,
        )
