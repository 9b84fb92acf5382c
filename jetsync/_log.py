"""The only place that writes to ``logging``.

Texts of peers (subjects, error texts, what an exception of a handler says of a message) reach a log
through it. Each record is made printable: control characters are escaped in the message, in the
fields and in the traceback, so that no peer forges a line of a log or steers a terminal.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from jetsync._printable import printable

__all__ = ["Log", "traceback_text"]


class Log:
    """The log of a module: the logger of this name, with records that are printable.

    Thread-safe. The methods are those of ``logging.Logger``, with the caller's file and line.
    ``error`` is the exception whose traceback is shown; handlers find it in ``exc_info`` as usual.
    """

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    @property
    def level(self) -> int:
        """The level of this logger itself; 0 where those above decide."""
        return self._logger.level

    def is_enabled_for(self, level: int) -> bool:
        """Whether a record of this level is wanted."""
        return self._logger.isEnabledFor(level)

    def debug(self, text: str, *args: object, extra: Mapping[str, object] | None = None) -> None:
        """Log a detail that helps to find a fault."""
        self._write(logging.DEBUG, text, args, None, extra)

    def info(self, text: str, *args: object) -> None:
        """Log what happened as planned."""
        self._write(logging.INFO, text, args, None, None)

    def warning(self, text: str, *args: object, error: BaseException | None = None) -> None:
        """Log what the user should know of."""
        self._write(logging.WARNING, text, args, error, None)

    def error(self, text: str, *args: object) -> None:
        """Log what failed."""
        self._write(logging.ERROR, text, args, None, None)

    def exception(
        self, text: str, *args: object, extra: Mapping[str, object] | None = None
    ) -> None:
        """Log what failed, with the traceback of the exception that is being handled."""
        self._write(logging.ERROR, text, args, sys.exc_info()[1], extra)

    def log(
        self,
        level: int,
        text: str,
        *args: object,
        error: BaseException | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Log at a level that is known only now."""
        self._write(level, text, args, error, extra)

    def _write(
        self,
        level: int,
        text: str,
        args: tuple[object, ...],
        error: BaseException | None,
        extra: Mapping[str, object] | None,
    ) -> None:
        logger = self._logger
        if not logger.isEnabledFor(level):
            return
        frame = sys._getframe(2)  # the caller of debug(), info(), ...
        record = logger.makeRecord(
            logger.name,
            level,
            frame.f_code.co_filename,
            frame.f_lineno,
            printable(text),
            tuple(map(_escaped, args)),
            None if error is None else (type(error), error, error.__traceback__),
            frame.f_code.co_name,
            None if extra is None else {key: _escaped(value) for key, value in extra.items()},
        )
        if error is not None:
            # Formatters take this text instead of making one of `exc_info`.
            record.exc_text = traceback_text(error)
        logger.handle(record)


def traceback_text(error: BaseException) -> str:
    """Return the traceback of an exception as the interpreter prints it, with the texts of
    exceptions on one line each and every control character escaped."""
    try:
        whole = traceback.TracebackException.from_exception(error)
        for each in _chain(whole):
            each.__class__ = _OneLineEach
        text = "".join(whole.format())
    except Exception:  # noqa: BLE001 - attributes that raise, or a chain too long to walk
        text = f"{type(error).__name__}, whose traceback cannot be shown"
    return "\n".join(map(printable, text.rstrip("\n").split("\n")))


def _chain(first: traceback.TracebackException) -> list[traceback.TracebackException]:
    """An exception with its causes, and the members of groups."""
    found = [first]
    for each in found:
        found += [link for link in (each.__cause__, each.__context__) if link is not None]
        found += getattr(each, "exceptions", None) or ()
    return found


class _OneLineEach(traceback.TracebackException):
    """Gives each text of an exception as one line, whatever is in it."""

    def format_exception_only(  # type: ignore[override]  # later versions have options
        self, **options: Any
    ) -> Iterator[str]:
        notes = getattr(self, "__notes__", None)
        self.__notes__ = None
        try:
            for line in super().format_exception_only(**options):
                yield printable(line.removesuffix("\n")) + "\n"
        finally:
            self.__notes__ = notes
        for note in notes if isinstance(notes, (list, tuple)) else ():
            yield _escaped(str(note)) + "\n"


def _escaped(value: Any) -> Any:
    """Return an argument of a log line as it may be shown; numbers stay numbers."""
    if isinstance(value, BaseException):
        try:
            value = str(value)
        except Exception:  # noqa: BLE001 - a broken __str__ of the user's
            value = type(value).__name__
    return printable(value) if isinstance(value, str) else value
