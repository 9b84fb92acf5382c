"""Copies of errors without tracebacks, for a connection to keep."""

from __future__ import annotations

import copy
from collections.abc import Callable

from jetsync.errors import Error

__all__ = ["without_traceback"]


def without_traceback(error: BaseException) -> BaseException:
    """Return a copy of an error and of the errors that led to it, all without tracebacks.

    A traceback keeps the variables of every function that the error went through, and with them
    messages and handles of the user. The error itself, which is raised or handled elsewhere, stays
    as it is.
    """
    made = {id(error): _copy(error)}
    link = error
    while (more := link.__cause__ or (not link.__suppress_context__ and link.__context__)) and (
        id(more) not in made
    ):
        made[id(more)] = copied = _copy(more)
        if link.__cause__ is None:
            made[id(link)].__context__ = copied
        else:
            made[id(link)].__cause__ = copied
        link = more
    return made[id(error)]


def _copy(error: BaseException) -> BaseException:
    """Copy one error. Its class may be the user's, and fail to be copied."""
    kind = type(error)
    makes: tuple[Callable[[BaseException], BaseException], ...] = (copy.copy, _copy_uninitialized)
    for make in makes:
        try:
            copied = make(error)
        except Exception:  # noqa: BLE001, S112 - code of the user
            continue
        if type(copied) is kind and copied is not error:
            copied.__cause__ = copied.__context__ = copied.__traceback__ = None
            copied.__suppress_context__ = error.__suppress_context__
            return copied
    return Error(f"{kind.__name__}, which cannot be copied")


def _copy_uninitialized(error: BaseException) -> BaseException:
    """Copy an error whose ``__init__`` takes other arguments than it gives to ``super()``."""
    copied = type(error).__new__(type(error), *error.args)
    copied.__dict__.update(error.__dict__)
    return copied
