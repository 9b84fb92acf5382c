"""Every error that jetsync raises.

::

    Error(Exception)                    every error we raise; picklable
    +-- ConfigError(ValueError)         wrong options, names or arguments, found before any I/O
    +-- ConnectError(ConnectionError)   no connection could be made
    |   +-- NoServersError              every server was tried, none answered
    |   +-- AuthorizationError          the server refused the credentials
    |   +-- TLSRequiredError            one side insists on TLS, the other does not offer it
    +-- ConnectionClosedError(ConnectionError)   the connection is closed for good
    |   +-- ForkedError                 the connection belongs to another process
    |   +-- DrainingError               the connection or subscription is shutting down
    +-- DisconnectedError(ConnectionError)   the link broke while the call was waiting
    |   +-- StaleConnectionError        the server stopped answering pings
    +-- ServerError                     what the server said in an -ERR line
    |   +-- PermissionsError            ... about one subject (``.subject``)
    +-- ProtocolError                   the server broke the protocol; never a caller's mistake
    +-- TimeoutError(builtins.TimeoutError)   the time budget is used up (``.operation``)
    |   +-- PullUnansweredError(.cause)   the server did not answer a pull: no word on messages
    +-- NoRespondersError               no subscriber on the requested subject (status 503)
    +-- MaxPayloadError                 message larger than the server takes
    +-- OutboundFullError               the outbound buffer stayed full for ``write_timeout``
    +-- SlowConsumerError               a subscription's limit was hit (given to ``on_error`` only)
    +-- ServerUnavailableError          the embedded nats-server could not be found or started
    +-- JetStreamError
        +-- APIError(.code .err_code .description)   and a subclass per code that users branch on
        +-- NotJetStreamMessageError    the reply subject is not an acknowledgement subject
        +-- ConsumerDeletedError        the consumer was deleted while messages were awaited
        +-- PullTerminatedError(.status)   the server ended a pull for a reason of its own
        +-- SubscribeError              the consumer that exists does not fit the subscription
        |   +-- DuplicateSubscriptionError  another subscriber receives from this push consumer
        |   +-- DeliverGroupMismatchError   queue and deliver group are not the same
        |   +-- SubjectMismatchError    the consumer is for another subject
        |   +-- PullConsumerError       it is a pull consumer, a push consumer was wanted
        |   +-- PushConsumerError       it is a push consumer, a pull consumer was wanted
        |   +-- QueueStatusError        heartbeats or flow control on a consumer of a queue group
        |   +-- ConsumerMismatchError(.fields)   it is configured differently
        +-- MissedHeartbeatError        nothing came from the server for too long (for ``on_error``)
        +-- MessageGapError             messages did not arrive (for ``on_error``)
        +-- UnexpectedStatusError(.status)   a status that jetsync does not know (for ``on_error``)
        +-- PublishError
        |   +-- NotStoredError          certainly not in the stream
        |   +-- PublishUnknownError(TimeoutError)   may be in the stream
        +-- KeyValueError               the key-value store (``.bucket``)
            +-- BucketNotFoundError     there is no such bucket
            +-- BucketExistsError       it exists with another configuration
            +-- KeyNotFoundError        the key has no value (``.key``)
            |   +-- KeyDeletedError     ... any more: it was deleted or purged (``.revision``)
            +-- KeyExistsError(NotStoredError)        create: the key has a value
            +-- KeyWrongRevisionError(NotStoredError)   update: another client wrote
        +-- ObjectStoreError            the object store (``.bucket``)
            +-- ObjectStoreNotFoundError   there is no such bucket
            +-- ObjectStoreExistsError  it exists with another configuration
            +-- ObjectNotFoundError     there is no such object, or not any more (``.name``)
            +-- ObjectExistsError       the name is taken by another object (``.name``)
            +-- ObjectLinkError         a link that cannot be made or followed (``.name``)
            +-- ObjectMetaError         what is stored about an object cannot be read
            +-- ObjectIntegrityError    its bytes are missing, or not those put (``.name``)
                +-- ObjectReplacedError   it was replaced or deleted while it was read

Rules: whose fault it is makes the first split; a JetStream class is chosen by ``err_code``, never
by text; each docstring says when you get the error and what to do about it.
"""

from __future__ import annotations

import builtins
from typing import Any, ClassVar

from jetsync._printable import printable

__all__ = [
    "APIError",
    "AuthorizationError",
    "BucketExistsError",
    "BucketNotFoundError",
    "ConfigError",
    "ConnectError",
    "ConnectionClosedError",
    "ConsumerDeletedError",
    "ConsumerMismatchError",
    "DeliverGroupMismatchError",
    "DisconnectedError",
    "DrainingError",
    "DuplicateSubscriptionError",
    "Error",
    "ForkedError",
    "JetStreamError",
    "KeyDeletedError",
    "KeyExistsError",
    "KeyNotFoundError",
    "KeyValueError",
    "KeyWrongRevisionError",
    "MaxPayloadError",
    "MessageGapError",
    "MissedHeartbeatError",
    "NoRespondersError",
    "NoServersError",
    "NotJetStreamMessageError",
    "NotStoredError",
    "ObjectExistsError",
    "ObjectIntegrityError",
    "ObjectLinkError",
    "ObjectMetaError",
    "ObjectNotFoundError",
    "ObjectReplacedError",
    "ObjectStoreError",
    "ObjectStoreExistsError",
    "ObjectStoreNotFoundError",
    "OutboundFullError",
    "PermissionsError",
    "ProtocolError",
    "PublishError",
    "PublishUnknownError",
    "PullConsumerError",
    "PullTerminatedError",
    "PullUnansweredError",
    "PushConsumerError",
    "QueueStatusError",
    "ServerError",
    "ServerUnavailableError",
    "SlowConsumerError",
    "StaleConnectionError",
    "SubjectMismatchError",
    "SubscribeError",
    "TLSRequiredError",
    "TimeoutError",
    "UnexpectedStatusError",
]


class Error(Exception):
    """Base of everything jetsync raises.

    Subclasses take one positional message; anything else is a keyword with a default, so that
    every error survives pickling (attributes travel in ``__dict__``). Control characters in the
    text, which a peer may have sent, are escaped: it is always one line.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(message) if isinstance(message, str) else message)


class ConfigError(Error, ValueError):
    """An option, name or argument is wrong; nothing was sent. Correct the one named."""


class ConnectError(Error, ConnectionError):
    """No connection could be made. The text names the last server tried and why it failed."""


class NoServersError(ConnectError):
    """Every known server was tried and none gave a connection. Check the URLs and the network."""


class AuthorizationError(ConnectError):
    """The server refused the credentials, or they expired. Check what you gave."""


class TLSRequiredError(ConnectError):
    """One side insists on TLS and the other does not offer it. Check the URL scheme and ``tls``."""


class ConnectionClosedError(Error, ConnectionError):
    """The connection is closed, so nothing more can be done with it. Make a new one."""


class ForkedError(ConnectionClosedError):
    """The connection was made in another process (before a fork). Connect again in this one."""


class DrainingError(ConnectionClosedError):
    """The connection or subscription is being drained and takes no new work."""


class DisconnectedError(Error, ConnectionError):
    """The link broke while this call waited. The request may have been carried out."""


class StaleConnectionError(DisconnectedError):
    """The server stopped answering pings, so the link was given up."""


class ServerError(Error):
    """The server reported an error (an ``-ERR`` line); its own words are the text."""


class PermissionsError(ServerError):
    """The account may not publish or subscribe to ``subject``. Ask for the permission."""

    def __init__(
        self,
        message: str = "",
        *,
        subject: str | None = None,
        queue: str | None = None,
        operation: str | None = None,
    ) -> None:
        super().__init__(message)
        self.subject = subject
        self.queue = queue
        self.operation = operation


class ProtocolError(Error):
    """The server sent bytes that break the NATS protocol. The link is replaced."""


class TimeoutError(Error, builtins.TimeoutError):
    """The time budget of a call is used up; ``operation`` says of which."""

    def __init__(self, message: str = "", *, operation: str | None = None) -> None:
        super().__init__(message)
        self.operation = operation


class PullUnansweredError(TimeoutError):
    """The server did not answer a pull in time: this does not mean that there are no messages.

    ``cause`` is ``"link"`` (there is no link, or it is still bringing a message), ``"leader"`` (no
    server leads the consumer at the moment) or ``"server"`` (the server hangs). Call again: what
    was on its way is returned then.
    """

    def __init__(
        self, message: str = "", *, cause: str = "server", operation: str | None = None
    ) -> None:
        super().__init__(message, operation=operation)
        self.cause = cause


class NoRespondersError(Error):
    """The requested subject has no subscriber (status 503). Raised at once, not after a timeout."""

    def __init__(self, message: str = "", *, subject: str | None = None) -> None:
        super().__init__(message)
        self.subject = subject


class MaxPayloadError(Error):
    """The message is larger than the server's ``max_payload``; nothing was sent."""


class OutboundFullError(Error):
    """The outbound buffer stayed full (server slow or away). Nothing of the message left."""


class SlowConsumerError(Error):
    """A subscription's limit was hit, new messages were dropped. Given to ``on_error``."""

    def __init__(self, message: str = "", *, subject: str | None = None, dropped: int = 0) -> None:
        super().__init__(message)
        self.subject = subject
        self.dropped = dropped


class ServerUnavailableError(Error):
    """The embedded nats-server could not be found or started; the text says what to do."""


class JetStreamError(Error):
    """Base of the errors about streams, consumers and stored messages."""


class APIError(JetStreamError):
    """The JetStream API refused a request.

    ``err_code`` is the stable number to branch on, ``code`` an HTTP-like class of it,
    ``description`` the server's own words. ``retryable`` says whether the same request can succeed
    later without any change.
    """

    retryable: ClassVar[bool] = False

    def __init__(
        self, message: str = "", *, code: int = 0, err_code: int = 0, description: str = ""
    ) -> None:
        super().__init__(message or f"{description} (err_code {err_code})")
        self.code = code
        self.err_code = err_code
        self.description = description


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
        self.fields = dict(fields or {})


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


class KeyValueError(JetStreamError):
    """Base of the errors of the key-value store; ``bucket`` says of which bucket."""

    def __init__(self, message: str = "", *, bucket: str = "") -> None:
        super().__init__(message)
        self.bucket = bucket


class BucketNotFoundError(KeyValueError):
    """There is no bucket of this name. Create it, or correct the name (or the domain)."""


class BucketExistsError(KeyValueError):
    """The bucket exists with another configuration. Update it, or take another name."""


class KeyNotFoundError(KeyValueError):
    """The key has no value, or not in this revision."""

    def __init__(self, message: str = "", *, bucket: str = "", key: str = "") -> None:
        super().__init__(message, bucket=bucket)
        self.key = key


class KeyDeletedError(KeyNotFoundError):
    """The key had a value; it was deleted, purged or aged out. ``revision`` is the marker's.

    ``create`` gives it a value again.
    """

    def __init__(
        self, message: str = "", *, bucket: str = "", key: str = "", revision: int = 0
    ) -> None:
        super().__init__(message, bucket=bucket, key=key)
        self.revision = revision


class KeyExistsError(KeyValueError, NotStoredError):
    """``create`` found a value, the one of ``revision``. Nothing was stored; ``update`` that."""

    def __init__(
        self, message: str = "", *, bucket: str = "", key: str = "", revision: int = 0
    ) -> None:
        super().__init__(message, bucket=bucket)
        self.key = key
        self.revision = revision


class KeyWrongRevisionError(KeyValueError, NotStoredError):
    """Another client wrote the key since ``expected``. Nothing was stored; read it and decide anew.

    ``actual`` is the key's last revision, None if the server does not say.
    """

    def __init__(
        self,
        message: str = "",
        *,
        bucket: str = "",
        key: str = "",
        expected: int = 0,
        actual: int | None = None,
    ) -> None:
        super().__init__(message, bucket=bucket)
        self.key = key
        self.expected = expected
        self.actual = actual


class ObjectStoreError(JetStreamError):
    """Base of the errors of the object store; ``bucket`` and ``name`` say of which object."""

    def __init__(self, message: str = "", *, bucket: str = "", name: str = "") -> None:
        super().__init__(message)
        self.bucket = bucket
        self.name = name


class ObjectStoreNotFoundError(ObjectStoreError):
    """There is no bucket of this name. Create it, or correct the name (or the domain)."""


class ObjectStoreExistsError(ObjectStoreError):
    """The bucket exists with another configuration. Update it, or take another name."""


class ObjectNotFoundError(ObjectStoreError):
    """There is no object of this name, or it was deleted."""


class ObjectExistsError(ObjectStoreError):
    """Another object has this name already. Take another name, or delete that one first."""


class ObjectLinkError(ObjectStoreError):
    """A link that cannot be: to a link, to what is deleted, in a circle, or to a whole bucket where
    an object is needed."""


class ObjectMetaError(ObjectStoreError):
    """What is stored about an object cannot be read. Some other program wrote it; put it again."""


class ObjectIntegrityError(ObjectStoreError):
    """An object's bytes are missing, or are not those that were put: do not use what was read."""


class ObjectReplacedError(ObjectIntegrityError):
    """The object was replaced, renamed or deleted while it was read. Nothing is wrong with the
    bucket: get it again."""


def _publish_names(namespace: dict[str, Any]) -> None:
    """Show the public home of each class in tracebacks and pickles."""
    for value in namespace.values():
        if isinstance(value, type) and issubclass(value, Error):
            value.__module__ = "jetsync"


_publish_names(globals())
