"""One request function for the whole JetStream API."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Deadline, Seconds
from jetsync._log import Log
from jetsync.client.port import port_of
from jetsync.errors import (
    APIError,
    ConfigError,
    DisconnectedError,
    Error,
    JetStreamNotEnabledError,
    JetStreamUnavailableError,
    NoRespondersError,
    OutboundFullError,
    ProtocolError,
    TimeoutError,
)
from jetsync.errors.api import api_error
from jetsync.jetstream.levels import Need, Served, check
from jetsync.protocol.subjects import check_name, check_publish_subject

if TYPE_CHECKING:
    from jetsync.client import Connection, Msg
    from jetsync.client.port import Exchange, Port

__all__ = ["API", "decode", "reading"]

logger: Log = Log("jetsync.api")

Another = Callable[[], tuple[str, Mapping[str, Any]]]
"""Returns the operation and the body of another request."""

_SILENCE = 0.5
"""After so many seconds without an answer, or the round trip if that is longer, a repeatable
request is sent again: servers lose it while they elect a leader."""
_LISTING_SILENCE = 3.0
"""The same for a listing, which takes servers of a damaged cluster four seconds."""
_SILENCE_SHARE = 1 / 8
"""Later waits last this share of the time since the first asking, so that servers which are slow
get ever fewer copies."""
_UNSERVED_WAIT = 0.25
"""Seconds after which a request that no server could answer is sent again."""


@contextlib.contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn an error of reading an answer in the block into a ProtocolError of the call.

    Any client with the right to publish to a reply subject can write an answer."""
    try:
        yield
    except Error:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise ProtocolError(f"{what} cannot be read: {error!r}") from error


def decode(data: bytes, operation: str = "") -> dict[str, Any]:
    """Read the API's answer to ``operation``, which an error of it names then.

    Raises the APIError it carries, ProtocolError for no JSON object.
    """
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(
            f"the JetStream API answered with something else than JSON: {error}"
        ) from error
    if not isinstance(answer, dict):
        raise ProtocolError("the JetStream API answered with something else than a JSON object")
    # Other fields may stand next to an error: the error decides.
    if answer.get("error"):
        raise api_error(answer["error"], operation)
    return answer


class API:
    """Requests below one API prefix. Thread-safe."""

    def __init__(
        self, nc: Connection, *, domain: str | None, api_prefix: str | None, timeout: float
    ) -> None:
        if domain is not None and api_prefix is not None:
            raise ConfigError("give either domain or api_prefix, not both")
        if domain is not None:
            api_prefix = f"$JS.{check_name('domain', domain)}.API"
        if api_prefix is not None and not isinstance(api_prefix, str):
            raise ConfigError(f"api_prefix must be a str, not {type(api_prefix).__name__}")
        self.nc = nc
        self.port: Port = port_of(nc)
        self.prefix: str = check_publish_subject((api_prefix or "$JS.API").rstrip("."))
        self.timeout = timeout
        self.domain = domain
        """The domain that was asked for by name, if one was."""
        self._far = self.prefix != "$JS.API"
        self._far_served: Served | None = None
        self._answered = False
        """Whether a server has answered below the prefix: then the prefix is right."""

    def deadline(self, timeout: Seconds | None) -> Deadline:
        """The deadline of a call: ``timeout`` seconds from now, or the default of this object."""
        return Deadline(self.timeout if timeout is None else timeout)

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
        ahead: Exchange | None = None,
        again: Another | None = None,
    ) -> dict[str, Any]:
        """Ask and return the decoded answer. Blocks up to ``timeout`` seconds.

        A request is sent again when the servers refuse it for the moment, and when no server serves
        an API that has answered before: a leaf node's or gateway's link may be away for a moment.
        In neither case was it carried out. A ``repeatable`` one is also sent again when the link
        broke before the answer came, and after silence (no server answers for a stream that is
        getting a new leader). ``ahead``: the exchange to ask by instead of one with ``body``, such
        as :meth:`ask_ahead` returns; the answer to what it has asked already counts. ``again``
        returns the operation and body that are sent after silence instead; the first answer to any
        of them is returned.

        Raises APIError (a subclass by ``err_code``), JetStreamNotEnabledError when no server serves
        the API, JetStreamUnavailableError when none does any more, TimeoutError,
        DisconnectedError.
        """
        subject = self.subject(operation)
        verb = ".".join(operation.split(".", 2)[:2])
        silence = None
        if repeatable or again is not None:
            silence = _LISTING_SILENCE if verb.endswith(".LIST") else _SILENCE
        ask = self._logged if logger.is_enabled_for(logging.DEBUG) else self._request
        with self.port.operation("api", verb, subject=subject):
            return ask(operation, subject, body, self.deadline(timeout), silence, ahead, again)

    def _logged(self, operation: str, subject: str, *rest: Any) -> dict[str, Any]:
        """Ask, and log how long it took and what it ended with."""
        about: dict[str, object] = {"nats_event": "api", "nats_subject": subject}
        about["nats_connection"] = self.nc.options.name or self.port.label
        begun, end = time.monotonic(), "answered"
        try:
            return self._request(operation, subject, *rest)
        except Error as error:
            end = f"{type(error).__name__}: {error}"
            if isinstance(error, APIError) and error.err_code:
                about["nats_err_code"] = error.err_code
            raise
        finally:
            about["nats_duration"] = seconds = time.monotonic() - begun
            logger.debug("%s: %s after %.6f s", subject, end, seconds, extra=about)

    def _request(
        self,
        operation: str,
        subject: str,
        body: Mapping[str, Any] | None,
        deadline: Deadline,
        silence: float | None,
        ahead: Exchange | None,
        again: Another | None,
    ) -> dict[str, Any]:
        """See :meth:`request`; ``silence`` is None for what is not repeatable."""
        payload = b"" if body is None else json.dumps(body).encode()
        while True:
            try:
                self.port.check()
                if silence is not None:
                    answer = self._ask_until_answered(
                        subject, payload, deadline, silence, ahead, again
                    )
                elif ahead is not None:
                    answer = ahead.ask(Deadline(self.port.seconds(deadline.remaining())))
                else:
                    # Wildcards are allowed: a consumer's filter is part of the subject that creates
                    # it.
                    left = self.port.seconds(deadline.remaining())
                    answer = self.port.request(subject, payload, left, wild=True)
                decoded = decode(answer.data, operation)
            except NoRespondersError as error:
                if not self._answered:
                    raise JetStreamNotEnabledError(
                        f"no server answers {self.prefix!r}: JetStream is not enabled for this"
                        " account, or the domain or prefix is wrong"
                    ) from error
                if deadline.within(_UNSERVED_WAIT) < _UNSERVED_WAIT:
                    raise JetStreamUnavailableError(
                        f"no server answers {self.prefix!r} any more: the link of a leaf node or "
                        "gateway may be down, or JetStream was switched off"
                    ) from error
                self.port.sleep(_UNSERVED_WAIT)
            except DisconnectedError:
                if silence is None or deadline.expired:
                    raise
                self.port.sleep(deadline.within(0.05))
            except APIError as error:
                self._answered = True
                is_last = deadline.within(_UNSERVED_WAIT) < _UNSERVED_WAIT
                if not error.retryable or is_last:
                    raise
                self.port.sleep(_UNSERVED_WAIT)
            else:
                self._answered = True
                return decoded

    def ask_ahead(self, operation: str, deadline: Deadline) -> Exchange:
        """Send the request of an operation without waiting for its answer, so that another one can
        be sent meanwhile. Returns a context manager for ``ahead`` of :meth:`request`, which waits
        for the answer."""
        exchange = self.port.exchange(self.subject(operation), b"", wild=True)
        with contextlib.suppress(Error):  # the request asks again and says what is wrong
            exchange.ask_ahead(deadline.step(self.timeout))
        return exchange

    def _ask_until_answered(
        self,
        subject: str,
        payload: bytes,
        deadline: Deadline,
        silence: float,
        ahead: Exchange | None,
        again: Another | None,
    ) -> Msg:
        """Ask, and again after so many seconds of silence. The first answer counts, also one to an
        earlier copy."""
        begun = time.monotonic()
        with ahead or self.port.exchange(subject, payload, wild=True) as exchange:
            while True:
                reads = self.port.reads
                share = (time.monotonic() - begun) * _SILENCE_SHARE
                try:
                    return exchange.ask(
                        deadline.step(max(silence, self.port.round_trip.seconds, share))
                    )
                except (TimeoutError, OutboundFullError):
                    if deadline.expired:
                        raise
                if self.port.reads != reads:
                    # The answer may be behind the bytes that arrive, or among them. The PONG comes
                    # behind it, so an answer that is not there by then is not under way.
                    self.port.after_pong(exchange.wake)
                    try:
                        return exchange.another(deadline)
                    except TimeoutError:
                        if deadline.expired:
                            raise
                if again is not None:
                    operation, body = again()
                    exchange.change(self.subject(operation), json.dumps(body).encode())

    @property
    def is_clustered(self) -> bool:
        """Whether the servers of a cluster serve this API, as far as is known: the one of this
        connection is one of them. Does not block."""
        info = self.nc.server_info
        return not self._far and info is not None and bool(info.cluster) and info.jetstream

    def require(self, what: str, version: str) -> None:
        """Raise ApiLevelRequiredError if the server is known to be older than ``version``."""
        self.check_needs([(what, version)])

    def has(self, version: str) -> bool:
        """Whether the server has what came with ``version``; True while that is not known. Does not
        block."""
        served = self._far_served if self._far else Served.by(self.nc.server_info)
        return served is None or served.has(version)

    def check_needs(self, needs: Iterable[Need]) -> None:
        """Raise ApiLevelRequiredError for the first need that the server does not serve.

        Does not block, except once for a JetStream that another server may serve (a domain or
        prefix of its own): that one is asked for its level.
        """
        wanted = list(needs)
        if wanted:
            check(self._served(), wanted)

    def _served(self) -> Served:
        if not self._far:
            return Served.by(self.nc.server_info)
        if self._far_served is None:
            try:
                answer = self.request("INFO", repeatable=True)
            except Error:
                # No permission, or no answer: the request itself will show the error.
                return Served()
            with reading("the level of the JetStream API"):
                self._far_served = Served(level=int((answer.get("api") or {}).get("level") or 0))
        assert self._far_served is not None
        return self._far_served

    def pages(
        self,
        operation: str,
        field: str,
        body: Mapping[str, Any] | None = None,
        *,
        timeout: Seconds | None = None,
        missing: set[str] | None = None,
    ) -> Iterator[Any]:
        """Iterate over a listing, page by page; each page is a request of its own.

        The names of what servers of a cluster did not tell in time are put into ``missing``.
        """
        offset = 0
        while True:
            answer = self.request(
                operation, {**(body or {}), "offset": offset}, timeout=timeout, repeatable=True
            )
            with reading(f"the answer to {operation}"):
                items = list(answer.get(field) or [])
                if missing is not None:
                    missing.update(answer.get("missing") or (), answer.get("offline") or ())
                offset += len(items)
                is_last = not items or offset >= int(answer.get("total", 0))
            yield from items
            if is_last:
                return
