"""The error of services (ADR-32)."""

from __future__ import annotations

from typing import Any

from jetsync._printable import printable
from jetsync.errors.base import ConfigError, Error

__all__ = ["ServiceError"]


class ServiceError(Error):
    """The answer of a service that could not do what it was asked.

    A handler raises it to answer with it; ``ServiceClient.call`` raises it for such an answer.
    ``code`` is the service's own number (of HTTP's kind in most services), ``description`` a text
    for people, ``data`` the body that came with it. What to do follows from the code.
    """

    def __init__(self, code: int, description: str, data: bytes = b"") -> None:
        if isinstance(code, bool) or not isinstance(code, int):
            raise ConfigError(f"code of a ServiceError must be an int, not {code!r}")
        if not isinstance(description, str):
            raise ConfigError("description of a ServiceError must be a str")
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise ConfigError(
                f"data of a ServiceError must be bytes, not {type(data).__name__}: encode text "
                "first, for example text.encode()"
            )
        data = bytes(data)
        super().__init__()
        self.args: tuple[Any, ...] = (code, description, data)  # what a pickle makes it from
        self.code = code
        self.description = description
        self.data = data

    def __str__(self) -> str:
        return f"{self.code}: {printable(self.description)}"
