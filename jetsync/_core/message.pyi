"""Msg: one received message that owns its bytes. Headers and reply are decoded when asked for."""

from typing import Any, TypeVar

from jetsync.headers import HeaderInput, Headers

_M = TypeVar("_M", bound="Msg")

_JsAck = tuple[str, str, str, str, int, int, int, int, int]

DONE: int
ACKED: int
CONFIRMED: int

class Msg:
    """One received message."""

    _owner: Any
    _context: Any
    def __new__(cls: type[_M]) -> _M: ...
    @classmethod
    def _make(
        cls: type[_M],
        subject: str,
        data: bytes = b"",
        reply: str | None = None,
        raw_headers: bytes = b"",
        status: int = 0,
        *,
        owner: object | None = None,
    ) -> _M: ...
    @property
    def subject(self) -> str: ...
    @property
    def data(self) -> bytes: ...
    @property
    def raw_headers(self) -> bytes: ...
    @property
    def status(self) -> int: ...
    @property
    def reply(self) -> str | None: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def description(self) -> str: ...
    @property
    def size(self) -> int: ...
    def json(self) -> Any: ...
    def respond(self, data: bytes = b"", headers: HeaderInput | None = None) -> None: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

def _rebuild(
    type_: type[_M], subject: str, data: bytes, reply: bytes, raw_headers: bytes, status: int
) -> _M: ...
def parse_jsack(reply: str | bytes | None) -> _JsAck: ...
def message_jsack(msg: Msg) -> _JsAck: ...
def parse_puback(json: bytes) -> tuple[str, int, bool] | None: ...
