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

from jetsync.errors.api import (
    ApiLevelRequiredError,
    BatchPublishError,
    ClusterError,
    ConsumerDoesNotExistError,
    ConsumerExistsError,
    ConsumerInUseError,
    ConsumerNotFoundError,
    ConsumerResetError,
    CounterError,
    DuplicateInProcessError,
    ExpectedStreamMismatchError,
    HeaderTooLargeError,
    InvalidConsumerConfigError,
    InvalidRequestError,
    InvalidStreamConfigError,
    JetStreamNotEnabledError,
    JetStreamUnavailableError,
    LimitsExceededError,
    MessageNotFoundError,
    MessageTooLargeError,
    PedanticError,
    PriorityGroupError,
    ScheduleError,
    StoreFailedError,
    StreamNameInUseError,
    StreamNotFoundError,
    StreamSealedError,
    TTLError,
    WrongLastMsgIdError,
    WrongLastSequenceError,
)
from jetsync.errors.base import (
    AuthorizationError,
    ConfigError,
    ConnectError,
    ConnectionClosedError,
    DisconnectedError,
    DrainingError,
    Error,
    ForkedError,
    MaxPayloadError,
    NoRespondersError,
    NoServersError,
    OutboundFullError,
    PermissionsError,
    ProtocolError,
    PullUnansweredError,
    ServerError,
    ServerUnavailableError,
    SlowConsumerError,
    StaleConnectionError,
    TimeoutError,
    TLSRequiredError,
)
from jetsync.errors.jetstream import (
    APIError,
    BackupError,
    ConsumerDeletedError,
    ConsumerMismatchError,
    DeliverGroupMismatchError,
    DirectGetNotAllowedError,
    DuplicateSubscriptionError,
    JetStreamError,
    MessageGapError,
    MissedHeartbeatError,
    NotJetStreamMessageError,
    NotStoredError,
    PublishError,
    PublishUnknownError,
    PullConsumerError,
    PullTerminatedError,
    PushConsumerError,
    QueueStatusError,
    SlowAckWarning,
    SubjectMismatchError,
    SubscribeError,
    TooManyPendingError,
    UnexpectedStatusError,
)
from jetsync.errors.services import ServiceError
from jetsync.errors.stores import (
    BucketExistsError,
    BucketNotFoundError,
    KeyDeletedError,
    KeyExistsError,
    KeyNotFoundError,
    KeyValueError,
    KeyWrongRevisionError,
    ObjectExistsError,
    ObjectIntegrityError,
    ObjectLinkError,
    ObjectMetaError,
    ObjectNotFoundError,
    ObjectReplacedError,
    ObjectStoreError,
    ObjectStoreExistsError,
    ObjectStoreNotFoundError,
)

__all__ = [
    "APIError",
    "ApiLevelRequiredError",
    "AuthorizationError",
    "BackupError",
    "BatchPublishError",
    "BucketExistsError",
    "BucketNotFoundError",
    "ClusterError",
    "ConfigError",
    "ConnectError",
    "ConnectionClosedError",
    "ConsumerDeletedError",
    "ConsumerDoesNotExistError",
    "ConsumerExistsError",
    "ConsumerInUseError",
    "ConsumerMismatchError",
    "ConsumerNotFoundError",
    "ConsumerResetError",
    "CounterError",
    "DeliverGroupMismatchError",
    "DirectGetNotAllowedError",
    "DisconnectedError",
    "DrainingError",
    "DuplicateInProcessError",
    "DuplicateSubscriptionError",
    "Error",
    "ExpectedStreamMismatchError",
    "ForkedError",
    "HeaderTooLargeError",
    "InvalidConsumerConfigError",
    "InvalidRequestError",
    "InvalidStreamConfigError",
    "JetStreamError",
    "JetStreamNotEnabledError",
    "JetStreamUnavailableError",
    "KeyDeletedError",
    "KeyExistsError",
    "KeyNotFoundError",
    "KeyValueError",
    "KeyWrongRevisionError",
    "LimitsExceededError",
    "MaxPayloadError",
    "MessageGapError",
    "MessageNotFoundError",
    "MessageTooLargeError",
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
    "PedanticError",
    "PermissionsError",
    "PriorityGroupError",
    "ProtocolError",
    "PublishError",
    "PublishUnknownError",
    "PullConsumerError",
    "PullTerminatedError",
    "PullUnansweredError",
    "PushConsumerError",
    "QueueStatusError",
    "ScheduleError",
    "ServerError",
    "ServerUnavailableError",
    "ServiceError",
    "SlowAckWarning",
    "SlowConsumerError",
    "StaleConnectionError",
    "StoreFailedError",
    "StreamNameInUseError",
    "StreamNotFoundError",
    "StreamSealedError",
    "SubjectMismatchError",
    "SubscribeError",
    "TLSRequiredError",
    "TTLError",
    "TimeoutError",
    "TooManyPendingError",
    "UnexpectedStatusError",
    "WrongLastMsgIdError",
    "WrongLastSequenceError",
]


def _show_public_home() -> None:
    """Name ``jetsync`` as the module of each class, in tracebacks and pickles."""
    for name in __all__:
        globals()[name].__module__ = "jetsync"


_show_public_home()
