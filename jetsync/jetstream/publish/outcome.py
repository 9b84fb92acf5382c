"""The outcome of a published message: stored, certainly not stored, or unknown.

Every way of publishing asks here: what an answer or an error says about the copy that was sent
(``judge``), how persistent a publish is (``PERSISTENCE``), and which error tells the user
(``failure``).
"""

from __future__ import annotations

import dataclasses

from jetsync.errors import (
    APIError,
    ConnectionClosedError,
    DuplicateInProcessError,
    Error,
    MaxPayloadError,
    NoRespondersError,
    NotStoredError,
    OutboundFullError,
    PermissionsError,
    ProtocolError,
    PublishUnknownError,
)
from jetsync.errors.api import refused_publish

__all__ = ["PERSISTENCE", "Persistence", "Verdict", "failure", "judge", "unknown_outcome"]


@dataclasses.dataclass(frozen=True)
class Persistence:
    """How persistent a publish is. All in seconds."""

    silence: float = 0.5
    """Without an answer for so long, or for the round trip if that is longer, a message with an id
    is sent again: a leader that steps down may have lost it, or the answer. Each later wait is
    twice as long."""
    window_silence: float = 1.0
    """The same for a window of messages, which is sent again as a whole."""
    refused_wait: float = 0.25
    """The wait before a message is sent again after a temporary refusal."""
    link_wait: float = 0.01
    """The time between two checks for a link, or for an answer before a copy is sent."""
    room_wait: float = 0.005
    """The time between two tries of messages that wait for room in the outbound buffer."""
    last_attempt: float = 0.02
    """The time an attempt needs. None begins later: without an answer it would make the outcome
    unknown although that of the attempt before is known."""
    ask_within: float = 2.0
    """The time to ask a stream for its duplicate window, when the budget allows it."""
    slack: float = 0.2
    """How much later than its budget a call may return, to wait for answers under way."""


PERSISTENCE = Persistence()


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome of one attempt for its copy of the message."""

    maybe_stored: bool
    again: bool
    """Whether another attempt can end differently."""


def judge(error: Exception) -> Verdict:
    """Return what an attempt that ended with ``error`` means for its message."""
    if isinstance(error, DuplicateInProcessError):
        return Verdict(maybe_stored=True, again=True)  # another copy is being stored
    if isinstance(error, APIError):
        return Verdict(maybe_stored=False, again=error.retryable)
    if isinstance(error, (NoRespondersError, OutboundFullError)):
        return Verdict(maybe_stored=False, again=True)
    if isinstance(error, PermissionsError):
        # A refusal of the inbox, not of the message, says nothing about the message.
        return Verdict(maybe_stored=error.operation != "publish", again=False)
    if isinstance(error, (MaxPayloadError, NotStoredError)):
        return Verdict(maybe_stored=False, again=False)
    if isinstance(error, (ConnectionClosedError, ProtocolError)):
        return Verdict(maybe_stored=True, again=False)
    return Verdict(maybe_stored=True, again=True)  # silence, or the link broke


def failure(
    text: str,
    reason: Exception | None,
    *,
    maybe_stored: bool,
    operation: str,
    msg_id: str | None,
) -> Error:
    """Return the error for a message that no stream has confirmed.

    NotStoredError when no copy can be in the stream: with class and ``err_code`` of the server's
    refusal, if that was the reason. PublishUnknownError otherwise. ``reason`` is its cause.
    """
    if maybe_stored:
        return unknown_outcome(text, operation, msg_id, reason)
    if isinstance(reason, NotStoredError):
        return reason
    error = refused_publish(reason, text) if isinstance(reason, APIError) else NotStoredError(text)
    error.__cause__ = reason
    return error


def unknown_outcome(
    text: str, operation: str, msg_id: str | None, cause: BaseException | None
) -> PublishUnknownError:
    """Return the error for a message that may be stored; its text says what can be done."""
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
