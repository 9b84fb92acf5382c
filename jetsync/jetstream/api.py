"""One request function for the whole JetStream API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jetsync._api_errors import JetStreamNotEnabledError, api_error
from jetsync._deadline import Deadline, Seconds
from jetsync.errors import ConfigError, DisconnectedError, NoRespondersError, ProtocolError

if TYPE_CHECKING:
    from jetsync.client import Connection

__all__ = ["API", "decode"]


def decode(data: bytes) -> dict[str, Any]:
    """Read an API answer. Raises the APIError it carries, ProtocolError for no JSON object."""
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(
            f"the JetStream API answered with something else than JSON: {error}"
        ) from error
    if not isinstance(answer, dict):
        raise ProtocolError("the JetStream API answered with something else than a JSON object")
    # Other fields may stand next to an error: it is looked at first.
    if answer.get("error"):
        raise api_error(answer["error"])
    return answer


class API:
    """Requests below one API prefix. Thread-safe."""

    def __init__(
        self, nc: Connection, *, domain: str | None, api_prefix: str | None, timeout: float
    ) -> None:
        if domain is not None and api_prefix is not None:
            raise ConfigError("give either domain or api_prefix, not both")
        if domain is not None:
            api_prefix = f"$JS.{domain}.API"
        self.nc = nc
        self.prefix = (api_prefix or "$JS.API").rstrip(".")
        self.timeout = timeout

    def subject(self, operation: str) -> str:
        """The full subject of an operation such as ``STREAM.INFO.ORDERS``."""
        return f"{self.prefix}.{operation}"

    def request(
        self,
        operation: str,
        body: Mapping[str, Any] | None = None,
        *,
        timeout: Seconds | None = None,
        repeatable: bool = False,
    ) -> dict[str, Any]:
        """Ask and return the decoded answer. Blocks up to ``timeout`` seconds.

        A ``repeatable`` request is sent again when the link broke before the answer came. Raises
        APIError (a subclass by ``err_code``), JetStreamNotEnabledError when nobody serves the API,
        TimeoutError, DisconnectedError.
        """
        deadline = Deadline(self.timeout if timeout is None else timeout)
        payload = b"" if body is None else json.dumps(body).encode()
        while True:
            try:
                self.nc._check()
                # Wild: a consumer's filter is part of the subject that creates it.
                answer = self.nc._requests.request(
                    self.subject(operation),
                    payload,
                    self.nc._seconds(deadline.remaining()),
                    wild=True,
                )
            except NoRespondersError as error:
                raise JetStreamNotEnabledError(
                    f"nobody serves {self.prefix!r}: JetStream is not enabled for this account, or "
                    "the domain or prefix is wrong"
                ) from error
            except DisconnectedError:
                if not repeatable or deadline.expired:
                    raise
                self.nc._pause(deadline.within(0.05))
            else:
                return decode(answer.data)

    def pages(
        self, operation: str, field: str, body: Mapping[str, Any] | None = None
    ) -> Iterator[Any]:
        """Iterate over a listing, page by page; each page is a request of its own."""
        offset = 0
        while True:
            answer = self.request(operation, {**(body or {}), "offset": offset}, repeatable=True)
            items = answer.get(field) or []
            yield from items
            offset += len(items)
            if not items or offset >= int(answer.get("total", 0)):
                return
