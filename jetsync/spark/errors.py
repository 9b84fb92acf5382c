"""Errors with stable codes.

Spark hands a Python exception to the user as text inside one of its own error classes, so every
text here starts with a code in brackets that scripts can look for.
"""

from __future__ import annotations

import re

from jetsync.errors import ConfigError, JetStreamError

__all__ = ["CODES", "SparkOptionError", "SparkSourceError", "reason"]

CODES: dict[str, str] = {
    "JETSYNC_UNKNOWN_OPTION": "an option name is not known for this kind of read or write",
    "JETSYNC_MISSING_OPTION": "a required option was not given",
    "JETSYNC_INVALID_OPTION": "the value of an option cannot be used",
    "JETSYNC_UNSUPPORTED_OPTION": "the option exists, but this version cannot do what it asks",
    "JETSYNC_OPTION_CONFLICT": "two options exclude each other",
    "JETSYNC_AUTH_CONFLICT": "more than one way to log in was given",
    "JETSYNC_FILE_NOT_FOUND": "a file named by an option is missing on this machine",
    "JETSYNC_UNKNOWN_COLUMN": "a column is not one that the source or sink knows",
    "JETSYNC_MISSING_COLUMN": "the sink needs a column that the data does not have",
    "JETSYNC_COLUMN_TYPE": "a column has a type that cannot be used",
    "JETSYNC_UNSUPPORTED_MODE": "only append is possible",
    "JETSYNC_STREAM_NOT_FOUND": "the stream does not exist",
    "JETSYNC_STREAM_RECREATED": "the stream was deleted and made again after the offset",
    "JETSYNC_UNSUPPORTED_STREAM": "the stream is of a kind that cannot be read",
    "JETSYNC_DATA_LOSS": "messages between the position and the first available one are gone",
    "JETSYNC_INVALID_OFFSET": "an offset in the checkpoint cannot be understood",
    "JETSYNC_NO_SUBJECT": "no stream takes the subject, so nothing could be stored",
    "JETSYNC_WRONG_STREAM": "the subject belongs to another stream than the option says",
    "JETSYNC_DUPLICATE_WINDOW": "the stream forgets message ids too early",
    "JETSYNC_COMMIT_MARKER": "the commit marker belongs to another checkpoint or to later batches",
    "JETSYNC_NO_QUERY_ID": "Spark did not say which query and batch a task belongs to",
    "JETSYNC_STREAM_CONFIG": "the stream lacks a setting that the write needs",
    "JETSYNC_NULL_VALUE": "a row has no subject or no message id",
    "JETSYNC_INVALID_SUBJECT": "a row's subject is not one that can be published to",
    "JETSYNC_TOO_LARGE": "a row has more data than a message may have",
    "JETSYNC_EXPECTATION_FAILED": "the stream's last sequence is not the one that a row expects",
    "JETSYNC_CONSUMER_NOT_FOUND": "the consumer does not exist, or does not fit the use",
    "JETSYNC_WORK_FAILED": "the work on messages of a consumer raised too often",
    "JETSYNC_PUBLISH_FAILED": "some rows could not be published",
    "JETSYNC_SERVER_UNAVAILABLE": "no server could be reached for serverUnavailableTimeout",
    "JETSYNC_ACCESS_DENIED": "the server refused the login or a permission",
    "JETSYNC_API_ERROR": "the server refused a JetStream request",
    "JETSYNC_DEPENDENCY": "a needed package is missing on this machine",
}
"""Every code and what it means. Codes are stable; texts behind them may change."""


def _text(code: str, message: str) -> str:
    if code not in CODES:
        raise KeyError(code)
    return f"[{code}] {message}"


class SparkOptionError(ConfigError):
    """An option, column or mode cannot be used; found while planning. ``code`` is stable."""

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message if code is None else _text(code, message))
        self.code = code


class SparkSourceError(JetStreamError):
    """Reading or publishing cannot go on without risking wrong results. ``code`` is stable."""

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message if code is None else _text(code, message))
        self.code = code


_SAID_HERE = re.compile(r"(\[JETSYNC_[A-Z_]+\][^\n]*)")
_NOT_STARTED = "Python worker failed to connect back"
_STARTED_LATE = (
    f"{_NOT_STARTED}: a Python process of Spark took longer to start than the 10 seconds that "
    "Spark gives it; the machine may be too busy. A streaming query goes on from its checkpoint "
    "when it is started again"
)
_NOT_FOUND = (
    "Spark does not find the format jetstream: its Python processes run another Python than the "
    "one that has jetsync. Activate that environment, or set PYSPARK_PYTHON to its python, before "
    "the session starts; on a cluster install jetsync on the driver and every executor"
)
_NO_UPDATES = (
    "jetstream does not support Update mode: Spark offers it to no Python sink. Write the frame "
    "inside foreachBatch, with outputMode('update')"
)
_RAISED_IN_PYTHON = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")
_KNOWN = (
    (_SAID_HERE, None),
    (re.compile(_NOT_STARTED), _STARTED_LATE),
    (re.compile(r"\[DATA_SOURCE_NOT_FOUND\][^\n]*: jetstream\b"), _NOT_FOUND),
    (re.compile(r"jetstream does not support Update mode"), _NO_UPDATES),
    (_RAISED_IN_PYTHON, None),
)
"""Patterns of an error, the best first, with their meaning where the text does not say it."""


def reason(error: BaseException | str) -> str:
    """Return the sentence that says what is wrong, out of an error as Spark raises it.

    Spark puts a Python exception as text behind stack traces of its own. Of an error of jetsync
    this is ``[JETSYNC_...]`` with its sentence; of another one raised in Python its type and text;
    of what Spark says about its Python processes or about this format what that means; else the
    first line. Takes the exception or its text; looks at causes too. Never raises.
    """
    texts = []
    seen: set[int] = set()
    cause: BaseException | str | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        texts.append(str(cause))
        cause = getattr(cause, "__cause__", None)
    for pattern, sentence in _KNOWN:
        for text in texts:
            found = pattern.search(text)
            if found:
                return sentence or found.group(1).strip()
    lines = texts[0].strip().splitlines()
    return lines[0] if lines else type(error).__name__
