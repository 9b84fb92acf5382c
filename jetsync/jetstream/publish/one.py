"""publish: one message, and what is known about it afterwards (ADR-22)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from jetsync._api_errors import DuplicateInProcessError
from jetsync._deadline import Deadline
from jetsync.errors import (
    APIError,
    ConfigError,
    ConnectionClosedError,
    DisconnectedError,
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
from jetsync.jetstream.publish.duplicate_window import repeatable_for
from jetsync.jetstream.publish.order import await_turn
from jetsync.jetstream.publish.puback import PubAck, decode_puback
from jetsync.protocol.subjects import check_publish_subject

if TYPE_CHECKING:
    from jetsync.client.port import Port
    from jetsync.client.requests import Exchange

__all__ = ["publish", "unknown_outcome"]

_FIRST_SILENCE = 2.0
"""With an id a message is sent again after so many seconds without an answer, then after twice as
many: a request that a dying leader swallowed is not waited for until the end."""
_RETRY_WAIT = 0.25
_LINK_WAIT = 0.01
_LAST_ATTEMPT = 0.02  # one begun later would only make a known outcome unknown
_ASK_WITHIN = 1.0


def unknown_outcome(
    text: str, operation: str, msg_id: str | None, cause: BaseException | None
) -> PublishUnknownError:
    """The error for a message that may be stored, with what can be done about it."""
    advice = (
        "; publishing it again with the same msg_id inside the duplicate window is safe"
        if msg_id is not None
        else "; without a msg_id, publishing it again could store it twice"
    )
    error = PublishUnknownError(
        f"{text}: the message may be stored{advice}", operation=operation, msg_id=msg_id
    )
    error.__cause__ = cause
    return error


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
    deadline = Deadline(timeout)
    silence = min(_FIRST_SILENCE, max(1.0, timeout / 4)) if msg_id is not None else timeout
    first_sent: float | None = None
    unknown = False  # an earlier attempt may have been stored
    last: Exception | None = None
    with port.exchange(subject, data, headers) as exchange:
        while True:
            if not port.linked and not _wait_for_link(port, subject, data, deadline):
                last = last or DisconnectedError("there was no connection to send it on")
                break
            link = port.outbound.links
            if not await_turn(port, deadline):
                text = "messages that this thread published before it were not sent in time"
                last = last or DisconnectedError(text)
                break
            if unknown and not _may_repeat(api, subject, exchange, first_sent or 0.0, deadline):
                break
            try:
                port.check()
                if first_sent is None:
                    first_sent = time.monotonic()
                return decode_puback(exchange.ask(deadline.within(silence), link).data)
            except (NoRespondersError, OutboundFullError) as error:
                last = error  # this attempt is certainly not stored
            except TimeoutError as error:
                last, unknown = error, True
                silence *= 2
            except DisconnectedError as error:
                last, unknown = error, True
            except ConnectionClosedError as error:
                if first_sent is None:
                    raise
                text = "the connection was closed"
                raise unknown_outcome(text, "publish", msg_id, error) from error
            except ProtocolError as error:
                text = f"something else than a stream answered ({error})"
                raise unknown_outcome(text, "publish", msg_id, error) from error
            except APIError as error:
                last = error
                if isinstance(error, DuplicateInProcessError):
                    unknown = True
                elif not error.retryable:
                    raise _refusal(subject, error, unknown, msg_id) from error
            except (PermissionsError, MaxPayloadError) as error:
                if isinstance(error, MaxPayloadError) and not unknown:
                    raise
                # A refusal of the inbox, not of the message, says nothing about the message.
                inbox = isinstance(error, PermissionsError) and error.operation != "publish"
                raise _refusal(subject, error, unknown or inbox, msg_id) from error
            if unknown and msg_id is None:
                break
            port.sleep(deadline.within(_RETRY_WAIT))
            if deadline.within(1.0) < _LAST_ATTEMPT:
                break
    if unknown:
        text = f"no confirmation for {subject!r} within {timeout:g} s ({last})"
        raise unknown_outcome(text, "publish", msg_id, last) from last
    if isinstance(last, NoRespondersError):
        why = "no stream takes messages on it, or the one that does has no leader"
    else:
        why = str(last)
    raise NotStoredError(f"{subject!r} was not stored within {timeout:g} s: {why}") from last


def _refusal(subject: str, error: Exception, unknown: bool, msg_id: str | None) -> Exception:
    """The outcome of a message whose last copy was refused for good."""
    if unknown:
        # The copy before may be in the stream although this one was refused.
        text = f"an earlier attempt may be stored, the last one was refused ({error})"
        return unknown_outcome(text, "publish", msg_id, error)
    if isinstance(error, NotStoredError):
        return error
    return NotStoredError(f"{subject!r}: {error}")


def _wait_for_link(port: Port, subject: str, data: bytes, deadline: Deadline) -> bool:
    """Wait until there is a connection: a message left to the reconnect buffer could be stored long
    after its outcome was told."""
    check_publish_subject(subject)
    if isinstance(data, str):
        raise ConfigError("data must be bytes; encode text first, for example text.encode()")
    while not port.linked:
        port.check()
        if deadline.expired:
            return False
        port.sleep(deadline.within(_LINK_WAIT))
    return True


def _may_repeat(
    api: API, subject: str, exchange: Exchange, first_sent: float, deadline: Deadline
) -> bool:
    """Whether a copy sent now is dropped by the stream; waits until that is known, or until the
    answer came after all."""
    while not deadline.expired:
        try:
            seconds = repeatable_for(api, [subject], deadline.within(_ASK_WITHIN))
        except ConnectionClosedError:
            return False
        if exchange.answered:
            return True
        if seconds is not None:
            return time.monotonic() - first_sent < seconds
        api.port.sleep(deadline.within(_RETRY_WAIT))
    return False
