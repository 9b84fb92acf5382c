"""A connection keeps copies of errors, without the frames that they came through."""

from __future__ import annotations

import copy
from collections.abc import Callable

from jetsync.errors import Error

__all__ = ["without_traceback"]


def without_traceback(error: BaseException) -> BaseException:
    """Return a copy of an error, with copies of what led to it, that has no tracebacks.

    A traceback keeps the variables of every function that the error went through, and with them
    messages and handles of the user. The error itself, which is raised or handled elsewhere, stays
    as it is.
    """
    made = {id(error): _copy(error)}
    link = error
    while (more := link.__cause__ or (not link.__suppress_context__ and link.__context__)) and (
        id(more) not in made
    ):
        made[id(more)] = kept = _copy(more)
        if link.__cause__ is None:
            made[id(link)].__context__ = kept
        else:
            made[id(link)].__cause__ = kept
        link = more
    return made[id(error)]


def _copy(error: BaseException) -> BaseException:
    """Copy one error. What its class does, which may be the user's, may fail."""
    kind = type(error)
    makes: tuple[Callable[[BaseException], BaseException], ...] = (copy.copy, _copy_uninitialized)
    for make in makes:
        try:
            kept = make(error)
        except Exception:  # noqa: BLE001, S112 - code of the user
            continue
        if type(kept) is kind and kept is not error:
            kept.__cause__ = kept.__context__ = kept.__traceback__ = None
            kept.__suppress_context__ = error.__suppress_context__
            return kept
    return Error(f"{kind.__name__}, which cannot be copied")


def _copy_uninitialized(error: BaseException) -> BaseException:
    """For a class whose ``__init__`` takes something else than what it gives to ``super()``."""
    kept = type(error).__new__(type(error), *error.args)
    kept.__dict__.update(error.__dict__)
    return kept
