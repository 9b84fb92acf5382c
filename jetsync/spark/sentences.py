"""Errors as Spark shows them: the sentence first, not the way through jetsync to it.

Spark prints the whole traceback of a Python error, and the sentence behind it, in the middle of its
own text. So an error with a code leaves jetsync with one frame, and has itself as its cause: where
Spark prints causes, they come first.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Generator
from typing import Any, ParamSpec, TypeVar, cast

from jetsync._log import Log
from jetsync.spark.errors import SparkOptionError, SparkSourceError

__all__ = ["sentence_first"]

P = ParamSpec("P")
T = TypeVar("T")
log: Log = Log("jetsync.spark")


def sentence_first(call: Callable[P, T]) -> Callable[P, T]:
    """Return ``call`` for Spark to call: what it raises with a code has its sentence first.

    So has what the generator raises that it returns. The traceback is logged at DEBUG. An error
    without a code, or that has another one as its cause, keeps it.
    """

    @functools.wraps(call)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            result = call(*args, **kwargs)
        except (SparkOptionError, SparkSourceError) as error:
            raise _alone(error) from _cause(error)
        return cast(T, _rows(result)) if isinstance(result, Generator) else result

    return called


def _rows(rows: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    try:
        yield from rows
    except (SparkOptionError, SparkSourceError) as error:
        raise _alone(error) from _cause(error)


def _alone(error: Exception) -> Exception:
    log.log(logging.DEBUG, "what Spark is told of", error=error)
    return error.with_traceback(None)


def _cause(error: Exception) -> BaseException:
    return type(error)(str(error)) if error.__cause__ is None else error.__cause__
