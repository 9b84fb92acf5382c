"""publish: one message, and what is known about it afterwards (ADR-22)."""

from __future__ import annotations

import time
from typing import Any

from jetsync._deadline import Deadline
from jetsync.client.port import Exchange, Port
from jetsync.errors import (
    APIError,
    ConfigError,
    ConnectionClosedError,
    DisconnectedError,
    DuplicateInProcessError,
    Error,
    JetStreamNotEnabledError,
    MaxPayloadError,
    NoRespondersError,
    NotStoredError,
    OutboundFullError,
    PermissionsError,
    ProtocolError,
    PublishUnknownError,
    TimeoutError,
)
from jetsync.jetstream.api import API
from jetsync.jetstream.publish.counting import PublishCounts
from jetsync.jetstream.publish.duplicate_window import repeatable_for
from jetsync.jetstream.publish.order import await_turn
from jetsync.jetstream.publish.outcome import PERSISTENCE, failure, judge
from jetsync.jetstream.publish.puback import PubAck, decode_puback
from jetsync.jetstream.publish.whose import Whose, ask_streams_on, soon
from jetsync.protocol.subjects import check_publish_subject

__all__ = ["publish"]

_BLOCKED = "messages that this thread published before it were not sent in time"
_ENDS = (
    APIError,
    ConnectionClosedError,
    DisconnectedError,
    MaxPayloadError,
    NoRespondersError,
    OutboundFullError,
    PermissionsError,
    ProtocolError,
    TimeoutError,
)
"""How an attempt can end without a confirmation."""


def publish(
    port: Port,
    api: API,
    subject: str,
    data: bytes,
    timeout: float,
    headers: dict[str, Any],
    msg_id: str | None,
) -> PubAck:
    """Publish until the stream has confirmed it or the time is over."""
    counts, began = port.counted(PublishCounts), time.perf_counter()
    try:
        with port.exchange(subject, data, headers) as exchange:
            ack = _Publish(port, api, subject, exchange, timeout, headers, msg_id).run(data)
    except (NotStoredError, PublishUnknownError) as error:
        counts.failed(error)
        raise
    counts.confirmed(ack, time.perf_counter() - began)
    return ack


class _Publish:
    """The attempts to store one message, and the outcome they add up to."""

    def __init__(
        self,
        port: Port,
        api: API,
        subject: str,
        exchange: Exchange,
        timeout: float,
        headers: dict[str, Any],
        msg_id: str | None,
    ) -> None:
        self._port = port
        self._api = api
        self._subject = subject
        self._exchange = exchange
        self._timeout = timeout
        self._deadline = Deadline(timeout)
        self._expected = headers.get("Nats-Expected-Stream")
        self._msg_id = msg_id
        self._whose = Whose(api)
        self._link = 0  # the number of the link on which the next copy leaves
        self._first_sent: float | None = None
        self._unknown = False  # an earlier attempt may have been stored
        self._last: Exception | None = None
        self._unserved = False  # the servers said that no stream takes the subject

    def run(self, data: bytes) -> PubAck:
        deadline, timeout = self._deadline, self._timeout
        silence, in_process = timeout, PERSISTENCE.refused_wait
        if self._msg_id is not None:
            silence = max(PERSISTENCE.silence, self._port.round_trip.seconds)
        while self._may_send(data):
            try:
                return self._attempt(deadline.step(silence))
            except _ENDS as error:
                if not self._goes_on(error):
                    raise
                if isinstance(error, TimeoutError):
                    silence *= 2
                elif isinstance(error, DuplicateInProcessError):
                    # The answer to the copy that the server works on comes by itself.
                    self._wait_before_copy(in_process)
                    in_process *= 2
                else:
                    self._wait_before_copy(PERSISTENCE.refused_wait)
            if deadline.within(1.0) < PERSISTENCE.last_attempt:
                break
        raise self._out_of_time()

    # -- before an attempt -----------------------------------------------------------------------

    def _may_send(self, data: bytes) -> bool:
        """Wait for a link, for what this thread published before, and until a copy can be sent
        without being stored twice. Returns False when another attempt makes no sense."""
        deadline = self._deadline
        if self._unknown and self._msg_id is None:
            return False
        if not self._port.linked and not self._wait_for_link(data):
            self._last = self._last or DisconnectedError("there was no connection to send it on")
            return False
        self._link = self._port.outbound.links
        if not await_turn(self._port, deadline):
            self._last = self._last or DisconnectedError(_BLOCKED)
            return False
        return not self._unknown or self._may_repeat()

    def _wait_for_link(self, data: bytes) -> bool:
        """Wait until there is a connection: a message left to the reconnect buffer could be stored
        long after its outcome was told."""
        check_publish_subject(self._subject)
        if isinstance(data, str):
            raise ConfigError("data must be bytes; encode text first, for example text.encode()")
        while not self._port.linked:
            self._port.check()
            if self._deadline.expired:
                return False
            self._port.sleep(self._deadline.within(PERSISTENCE.link_wait))
        return True

    def _wait_before_copy(self, seconds: float) -> None:
        """Wait so long, or until an answer is there, which is taken instead of sending a copy."""
        end = self._deadline.step(seconds)
        while not (self._exchange.answered or end.expired):
            self._port.sleep(end.within(PERSISTENCE.link_wait))

    def _may_repeat(self) -> bool:
        """Whether the stream would drop a copy sent now; waits until that is known, or until the
        answer to an earlier copy came."""
        while not self._deadline.expired:
            try:
                within = self._deadline.within(PERSISTENCE.ask_within)
                seconds = repeatable_for(self._api, [self._subject], within)
            except ConnectionClosedError:
                return False
            if self._exchange.answered:
                return True
            if seconds is not None:
                return time.monotonic() - (self._first_sent or 0.0) < seconds
            self._port.sleep(self._deadline.within(PERSISTENCE.refused_wait))
        return False

    # -- an attempt, and its end -----------------------------------------------------------------

    def _attempt(self, until: Deadline) -> PubAck:
        """Send a copy and wait for an answer that counts."""
        self._port.check()
        if self._first_sent is None:
            self._first_sent = time.monotonic()
        msg = self._exchange.ask(until, self._link)
        while True:
            try:
                ack = decode_puback(msg.data)
            except APIError:
                if self._whose.refusal_counts(self._subject, msg.data, until):
                    raise
            else:
                if self._whose.confirmation_counts(ack.domain):
                    if self._expected is not None and ack.stream != self._expected:
                        raise ProtocolError(
                            f"stream {ack.stream!r} confirmed it, not {self._expected!r}"
                        )
                    return ack
            msg = self._exchange.another(until)

    def _goes_on(self, error: Error) -> bool:
        """Note what an attempt that ended with ``error`` means. Returns whether another one makes
        sense; raises the outcome when it is known. False: ``error`` itself is to be raised."""
        if isinstance(error, ConnectionClosedError) and self._first_sent is None:
            return False
        if isinstance(error, MaxPayloadError) and not self._unknown:
            return False
        self._last = error
        verdict = judge(error)
        if not verdict.again:
            raise self._refused(error, self._unknown or verdict.maybe_stored) from error
        self._unknown = self._unknown or verdict.maybe_stored
        if isinstance(error, NoRespondersError):
            self._find_stream(error)
        return True

    def _find_stream(self, error: NoRespondersError) -> None:
        """No stream took the message. Wait for a leader, but not for a stream that does not exist,
        which the servers have to say twice."""
        try:
            unserved = not ask_streams_on(self._api, self._subject, soon(self._api, self._deadline))
        except Error as answer:
            unserved = False
            if isinstance(answer, JetStreamNotEnabledError) and answer.err_code:
                self._last = answer  # the server's own text, which names the reason
        if unserved and self._unserved:
            raise self._refused(
                NoRespondersError("no stream takes messages on it", subject=self._subject),
                self._unknown,
            ) from error
        self._unserved = unserved

    def _refused(self, error: Error, maybe_stored: bool) -> Error:
        text = f"{self._subject!r}: {error}"
        if isinstance(error, ConnectionClosedError):
            text = "the connection was closed"
        elif isinstance(error, ProtocolError):
            text = f"something else than a stream answered ({error})"
        elif maybe_stored:
            # The copy before may be in the stream although this one was refused.
            text = f"an earlier attempt may be stored, the last one was refused ({error})"
        return self._failure(text, error, maybe_stored)

    def _out_of_time(self) -> Error:
        last, within = self._last, f"within {self._timeout:g} s"
        if self._unknown:
            text = f"no confirmation for {self._subject!r} {within} ({last})"
            return self._failure(text + self._whose.explain(), last, True)
        why = str(last)
        if isinstance(last, NoRespondersError):
            why = "no stream takes messages on it, or the one that does has no leader"
        return self._failure(f"{self._subject!r} was not stored {within}: {why}", last, False)

    def _failure(self, text: str, reason: Exception | None, maybe_stored: bool) -> Error:
        return failure(
            text, reason, maybe_stored=maybe_stored, operation="publish", msg_id=self._msg_id
        )
