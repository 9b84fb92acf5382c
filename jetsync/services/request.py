"""ServiceRequest: a request as its handler gets and answers it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from jetsync._counted import counted
from jetsync._latch import Once
from jetsync._log import Log
from jetsync._printable import printable
from jetsync.client import Msg
from jetsync.errors import ConfigError, ConnectionClosedError, ServiceError
from jetsync.headers import HeaderInput, Headers

__all__ = ["ERROR", "ERROR_CODE", "ServiceRequest", "error_headers"]

logger: Log = Log("jetsync.services")

ERROR = "Nats-Service-Error"
ERROR_CODE = "Nats-Service-Error-Code"
_LONGEST = 4096
"""Characters of a description: it is a header, and a part of the statistics until the next one."""


def error_headers(code: int, description: str) -> dict[str, str]:
    """The headers that make an answer an error (ADR-32): one line each, whatever the text."""
    text = printable(description[:_LONGEST])[:_LONGEST].strip()
    return {ERROR: text, ERROR_CODE: str(code)}


class ServiceRequest:
    """A request to an endpoint. Answer it once: later answers are ignored, with a warning.

    A handler may hand it to another thread and return None. Thread-safe.
    """

    __slots__ = ("_answered", "_has_failed", "_on_error", "msg")

    def __init__(self, msg: Msg, on_error: Callable[[str], object]) -> None:
        self._answered = Once()
        self._on_error = on_error
        self._has_failed = False
        self.msg: Msg = msg
        """The message as it came."""

    @property
    def subject(self) -> str:
        """The subject of the request: one of many where the endpoint's has wildcards."""
        return self.msg.subject

    @property
    def data(self) -> bytes:
        """The body."""
        return self.msg.data

    @property
    def headers(self) -> Headers:
        """The headers; empty, never None."""
        return self.msg.headers

    def respond(self, data: bytes = b"", *, headers: HeaderInput | None = None) -> None:
        """Answer with a body. Does not wait for the network.

        Does nothing when the request wants no answer, or when the connection has closed. Raises
        ConfigError, MaxPayloadError or OutboundFullError; then another answer can be given.
        """
        self._answer(data, headers)

    def respond_json(self, value: Any, *, headers: HeaderInput | None = None) -> None:
        """Answer with a value as JSON. Raises ConfigError for one that is none, and like
        :meth:`respond`."""
        try:
            data = json.dumps(value, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"the answer cannot be written as JSON: {error}") from error
        self._answer(data, headers)

    def respond_error(
        self,
        code: int,
        description: str,
        data: bytes = b"",
        *,
        headers: HeaderInput | None = None,
    ) -> None:
        """Answer with an error, which is counted. ``code`` and ``description`` travel as headers,
        control characters of the text escaped, 4,096 characters at most; ``data`` is the body. Does
        not block.

        Raises like :meth:`respond`: ConfigError, MaxPayloadError, OutboundFullError.
        """
        error = ServiceError(code, description, data)
        added = error_headers(error.code, error.description)
        failure = f"{added[ERROR_CODE]}:{added[ERROR]}"
        self._answer(data, {**(headers or {}), **added}, failure)

    def _answer(self, data: bytes, headers: HeaderInput | None, failure: str | None = None) -> None:
        """Send the one answer. What it counts is counted before the other side has it."""
        if not self._answered.first():
            logger.warning("a request on %s was answered twice", self.subject)
            return
        if failure is not None and not self._has_failed:
            self._has_failed = True  # another error instead of it counts no more
            self._on_error(failure)
        if self.msg.reply:
            try:
                self.msg.respond(data, headers)
            except ConnectionClosedError:
                pass  # the connection has ended: the requester gets no answer and times out
            except BaseException:
                self._answered = Once()
                raise

    def __repr__(self) -> str:
        return f"ServiceRequest({self.subject!r}, {counted(len(self.data), 'byte')})"
