"""The errors of JetStream: consuming, subscribing, publishing."""

from __future__ import annotations

from typing import Any, ClassVar

from jetsync.errors.base import Error, TimeoutError

__all__ = [
    "APIError",
    "BackupError",
    "ConsumerDeletedError",
    "ConsumerMismatchError",
    "DeliverGroupMismatchError",
    "DirectGetNotAllowedError",
    "DuplicateSubscriptionError",
    "JetStreamError",
    "MessageGapError",
    "MissedHeartbeatError",
    "NotJetStreamMessageError",
    "NotStoredError",
    "PublishError",
    "PublishUnknownError",
    "PullConsumerError",
    "PullTerminatedError",
    "PushConsumerError",
    "QueueStatusError",
    "SlowAckWarning",
    "SubjectMismatchError",
    "SubscribeError",
    "TooManyPendingError",
    "UnexpectedStatusError",
]


class JetStreamError(Error):
    """Base of the errors about streams, consumers and stored messages."""


class APIError(JetStreamError):
    """The JetStream API refused a request.

    ``err_code`` is the stable number to branch on, ``code`` an HTTP-like class of it,
    ``description`` the server's own words. ``retryable`` says whether the same request can succeed
    later without any change. ``stream`` and ``consumer`` are the names that the request was about,
    None where it was about none.
    """

    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str = "",
        *,
        code: int = 0,
        err_code: int = 0,
        description: str = "",
        stream: str | None = None,
        consumer: str | None = None,
    ) -> None:
        about = ""
        if stream is not None:
            about = f"stream {stream!r}: "
            if consumer is not None:
                about = f"consumer {consumer!r} of stream {stream!r}: "
        super().__init__(message or f"{about}{description} (err_code {err_code})")
        self.code = code
        self.err_code = err_code
        self.description = description
        self.stream = stream
        self.consumer = consumer


class NotJetStreamMessageError(JetStreamError):
    """The message did not come from a JetStream consumer, so it has no metadata and no acks."""


class ConsumerDeletedError(JetStreamError):
    """The consumer (or its stream) was deleted while messages were awaited. Create it again."""


class PullTerminatedError(JetStreamError):
    """The server ended a pull for its own reason: ``status`` is the code, the text its words."""

    def __init__(self, message: str = "", *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class SubscribeError(JetStreamError):
    """The consumer that exists on the server does not fit what the subscription asks for.

    The subclass says in which way. Nothing was changed on the server.
    """


class DuplicateSubscriptionError(SubscribeError):
    """A push consumer without a queue group is in use: only one subscription can receive from it.

    End the other one, or let both be members of one ``queue``.
    """


class DeliverGroupMismatchError(SubscribeError):
    """``queue`` and the consumer's deliver group differ, or only one of them is there.

    ``queue`` is yours, ``deliver_group`` the consumer's; None for none.
    """

    def __init__(
        self, message: str = "", *, queue: str | None = None, deliver_group: str | None = None
    ) -> None:
        super().__init__(message)
        self.queue = queue
        self.deliver_group = deliver_group


class SubjectMismatchError(SubscribeError):
    """The consumer takes another subject than ``subject``: see ``filter_subjects``."""

    def __init__(
        self, message: str = "", *, subject: str = "", filter_subjects: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.subject = subject
        self.filter_subjects = filter_subjects


class PullConsumerError(SubscribeError):
    """The consumer is a pull consumer: use ``pull_subscribe`` (or ``js.consumer``) for it."""


class PushConsumerError(SubscribeError):
    """The consumer is a push consumer: use ``subscribe`` for it."""


class QueueStatusError(SubscribeError):
    """The consumer sends heartbeats or flow control, which would go to any one of the queue group.

    Make the consumer without ``idle_heartbeat`` and ``flow_control``.
    """


class ConsumerMismatchError(SubscribeError):
    """The consumer is configured differently, and subscribing does not change it.

    ``fields`` has (yours, the server's) for each field that differs. Use ``update_consumer``, or
    leave the fields out.
    """

    def __init__(
        self, message: str = "", *, fields: dict[str, tuple[Any, Any]] | None = None
    ) -> None:
        super().__init__(message)
        self.fields: dict[str, tuple[Any, Any]] = dict(fields or {})


class MissedHeartbeatError(JetStreamError):
    """Neither a message nor a heartbeat came for ``seconds``. Given to ``on_error``.

    The subscription goes on; it looks after the consumer by itself.
    """

    def __init__(self, message: str = "", *, seconds: float = 0.0) -> None:
        super().__init__(message)
        self.seconds = seconds


class SlowAckWarning(JetStreamError):
    """Messages of a consumer are acknowledged after its ``ack_wait``, so they are delivered again;
    or so few are acknowledged that it may deliver no more (``max_ack_pending``).

    Given to ``on_error``, once each for each consumer object. ``held`` is how many seconds a
    message was held at least, ``ack_wait`` how many it may be.
    """

    def __init__(self, message: str = "", *, held: float = 0.0, ack_wait: float = 0.0) -> None:
        super().__init__(message)
        self.held = held
        self.ack_wait = ack_wait


class MessageGapError(JetStreamError):
    """Deliveries ``expected`` to ``received`` - 1 (consumer sequences) did not arrive.

    Given to ``on_error``. With acknowledgements the server delivers those messages again.
    """

    def __init__(self, message: str = "", *, expected: int = 0, received: int = 0) -> None:
        super().__init__(message)
        self.expected = expected
        self.received = received


class UnexpectedStatusError(JetStreamError):
    """The server sent a status that has no meaning for the subscription. Given to ``on_error``."""

    def __init__(self, message: str = "", *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class PublishError(JetStreamError):
    """A publish was not acknowledged. The subclass says what is known about the message."""


class NotStoredError(PublishError):
    """The message is certainly not in the stream. ``__cause__`` has the reason.

    When the stream refused it, this is an instance of that refusal's APIError subclass, too, with
    the server's ``code`` and ``err_code``; these are 0 otherwise.
    """

    code: int = 0
    err_code: int = 0


class PublishUnknownError(PublishError, TimeoutError):
    """The message may or may not be in the stream: no acknowledgement came in time.

    Repeating the publish with the same ``msg_id`` inside the stream's duplicate window is safe.
    """

    def __init__(
        self, message: str = "", *, operation: str | None = None, msg_id: str | None = None
    ) -> None:
        super().__init__(message, operation=operation)
        self.msg_id = msg_id


class TooManyPendingError(NotStoredError, TimeoutError):
    """``max_pending`` messages stayed unconfirmed for as long as the call may take, so this one was
    not sent. Wait for earlier ones (``publish_async_wait``), or raise ``max_pending``."""


class DirectGetNotAllowedError(JetStreamError):
    """The stream answers no direct gets. Update it with ``allow_direct=True``, or read its messages
    one by one with ``Stream.get_msg``."""


class BackupError(JetStreamError):
    """A backup or a restore ended before all of the stream was there. The text says what the server
    said. Nothing of it is left, unless the text says so."""
