"""The errors of the JetStream API that callers branch on: one class per cause.

The class is chosen by ``err_code``, the stable number of an error (nats-server
``server/errors.json``), never by ``code`` (a wrong configuration has 500) or by text (it changes
between releases). Numbers that are not in ``ERR_CODES`` become a plain ``APIError``. The table of
numbers is generated: see ``tests/errors/generate_api_errors.py``.

``retryable`` says whether the same request can succeed later without any change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from jetsync.errors.jetstream import APIError, NotStoredError

__all__ = [
    "ApiLevelRequiredError",
    "BatchPublishError",
    "ClusterError",
    "ConsumerDoesNotExistError",
    "ConsumerExistsError",
    "ConsumerInUseError",
    "ConsumerNotFoundError",
    "ConsumerResetError",
    "CounterError",
    "DuplicateInProcessError",
    "ExpectedStreamMismatchError",
    "HeaderTooLargeError",
    "InvalidConsumerConfigError",
    "InvalidRequestError",
    "InvalidStreamConfigError",
    "JetStreamNotEnabledError",
    "JetStreamUnavailableError",
    "LimitsExceededError",
    "MessageNotFoundError",
    "MessageTooLargeError",
    "PedanticError",
    "PriorityGroupError",
    "ScheduleError",
    "StoreFailedError",
    "StreamNameInUseError",
    "StreamNotFoundError",
    "StreamSealedError",
    "TTLError",
    "WrongLastMsgIdError",
    "WrongLastSequenceError",
]


class _KnownError(APIError):
    """Base of the classes in ``ERR_CODES``."""

    retryable: ClassVar[bool] = False


class _RefusedPublish(_KnownError, NotStoredError):
    """Base of those that only a publish gets: the message is certainly not in the stream."""


# -- something does not exist ----------------------------------------------------------------------


class StreamNotFoundError(_KnownError):
    """There is no stream of this name, or none for this subject. Create it, or correct the name."""


class ConsumerNotFoundError(_KnownError):
    """The stream has no consumer of this name. Create it; an ephemeral one may have timed out."""


class MessageNotFoundError(_KnownError):
    """The stream has no such message (any more), or none for this subject."""


class ConsumerDoesNotExistError(_KnownError):
    """A consumer should be updated and does not exist. Create it, or use ``create_or_update``."""


# -- something is there already --------------------------------------------------------------------


class StreamNameInUseError(_KnownError):
    """A stream of this name exists with another configuration. Update it, or take another name."""


class ConsumerExistsError(_KnownError):
    """A consumer of this name exists with another configuration. Update it, or rename yours."""


class ConsumerInUseError(_KnownError):
    """A client is bound to this push consumer. Stop that client, join its queue group, or take
    another name."""


# -- a publish broke a condition -------------------------------------------------------------------


class WrongLastSequenceError(_RefusedPublish):
    """Another publisher wrote to the stream or subject since ``expected_last_seq`` was read.

    ``actual_seq`` is where it is now, None if the server does not say. Read again and decide anew.
    """

    def __init__(
        self, message: str = "", *, code: int = 0, err_code: int = 0, description: str = ""
    ) -> None:
        super().__init__(message, code=code, err_code=err_code, description=description)
        found = re.search(r"wrong last sequence: (\d+)", description, re.ASCII)
        self.actual_seq: int | None = int(found[1]) if found else None


class WrongLastMsgIdError(_RefusedPublish):
    """The last message of the stream has another id than ``expected_last_msg_id``. Read again."""


class ExpectedStreamMismatchError(_RefusedPublish):
    """The subject belongs to another stream than ``expected_stream``. Correct one of them."""


class DuplicateInProcessError(_RefusedPublish):
    """A message with this id is being stored at this moment. The same publish, a little later,
    answers as a duplicate."""

    retryable = True


class MessageTooLargeError(_RefusedPublish):
    """The message is larger than the stream's ``max_msg_size``. Make it smaller or raise that."""


class HeaderTooLargeError(MessageTooLargeError):
    """The headers of the message have more than 64 KiB. Put less into them."""


class StreamSealedError(_KnownError):
    """The stream is sealed: its messages never change again."""


class TTLError(_RefusedPublish):
    """The message's ``ttl`` is not valid (at least 1 s), or the stream lacks ``allow_msg_ttl``."""


class CounterError(_RefusedPublish):
    """The message is no valid increment: a counter stream takes ``Nats-Incr`` and an empty payload,
    other streams take neither; or the stored counter is broken."""


class ScheduleError(_RefusedPublish):
    """The message's schedule is not valid, or the stream lacks ``allow_msg_schedules``."""


class BatchPublishError(_RefusedPublish):
    """A batch was given up and nothing of an atomic one is stored. The text says why: the stream
    lacks ``allow_atomic`` or ``allow_batched``, a message is missing, or the batch is too large.
    Publish the whole batch again."""


# -- the request is wrong --------------------------------------------------------------------------


class InvalidRequestError(_KnownError):
    """The server could not read the request: bad JSON, or a field it does not know. An older server
    answers so when a newer feature is used."""


class PedanticError(_KnownError):
    """In pedantic mode: the server would have changed a value that was sent. The text names it."""


class InvalidStreamConfigError(_KnownError):
    """The stream's configuration is not possible, or not for an update. The text says what."""


class InvalidConsumerConfigError(_KnownError):
    """The consumer's configuration is not possible, not with this stream, or not for an update. The
    text says what."""


class PriorityGroupError(_KnownError):
    """The priority groups of the consumer, or the group of a request, are not valid."""


class ConsumerResetError(_KnownError):
    """The consumer cannot be reset to this sequence: its ``deliver_policy`` does not allow it."""


class ApiLevelRequiredError(_KnownError):
    """The request needs a newer server than the one that answered. Upgrade, or do without."""


# -- the server cannot do it -----------------------------------------------------------------------


class JetStreamNotEnabledError(_KnownError):
    """JetStream is not enabled on the server or for the account. Enable it, or check the domain."""


class JetStreamUnavailableError(_KnownError):
    """JetStream cannot answer at the moment: no leader, a server offline or overloaded. Try again a
    little later."""

    retryable = True


class LimitsExceededError(_KnownError):
    """A limit of the account, the server or the stream is reached (with ``discard="new"``, a
    publish meets the stream's). The text says which. Make room, or raise the limit."""


class ClusterError(_KnownError):
    """The request needs a cluster, or servers in it, that are not there; or servers are being moved
    already. Check ``num_replicas`` and ``placement``."""


class StoreFailedError(_KnownError):
    """The server could not do it, for a reason of its own that the text names: most often its disk
    is full or broken. Look at the server; publishes may get no answer at all then."""


# 10043 answers the deletion of a message that is not there.
# -- generated by tests/errors/generate_api_errors.py: begin
_CODES: dict[type[APIError], tuple[int, ...]] = {
    StreamNotFoundError: (10059,),
    ConsumerNotFoundError: (10014,),
    MessageNotFoundError: (10037, 10043),
    ConsumerDoesNotExistError: (10149,),
    StreamNameInUseError: (10058, 10130),
    ConsumerExistsError: (10148,),
    ConsumerInUseError: (10013, 10105),
    WrongLastSequenceError: (10071, 10164),
    WrongLastMsgIdError: (10070,),
    ExpectedStreamMismatchError: (10060,),
    DuplicateInProcessError: (10158,),
    MessageTooLargeError: (10054,),
    HeaderTooLargeError: (10097,),
    StreamSealedError: (10109,),
    TTLError: (10165, 10166),
    CounterError: (10168, 10169, 10170, 10171, 10172),
    ScheduleError: (10188, 10189, 10190, 10191, 10192, 10203, 10212, 10223),
    BatchPublishError: (
        *(10174, 10175, 10176, 10177, 10179, 10199, 10200, 10201, 10205, 10206, 10207, 10208),
    ),
    InvalidRequestError: (10003, 10025, 10038, 10111, 10193, 10227),
    PedanticError: (10157,),
    InvalidStreamConfigError: (
        *(10021, 10022, 10024, 10030, 10031, 10032, 10033, 10034, 10046, 10052, 10055, 10056),
        *(10061, 10065, 10074, 10128, 10133, 10140, 10141, 10142, 10143, 10144, 10145, 10146),
        *(10147, 10150, 10151, 10152, 10154, 10155, 10156, 10173, 10186, 10187, 10198, 10209),
        *(10213, 10214, 10215, 10216, 10217),
    ),
    InvalidConsumerConfigError: (
        *(10012, 10016, 10017, 10018, 10019, 10020, 10078, 10079, 10080, 10081, 10082, 10083),
        *(10084, 10085, 10086, 10087, 10088, 10089, 10090, 10091, 10092, 10093, 10094, 10095),
        *(10098, 10099, 10100, 10101, 10102, 10103, 10106, 10107, 10108, 10112, 10114, 10115),
        *(10116, 10121, 10125, 10126, 10127, 10131, 10132, 10134, 10135, 10136, 10137, 10138),
        *(10139, 10153, 10181, 10182, 10183, 10184, 10218, 10219, 10220, 10221, 10222),
    ),
    PriorityGroupError: (10159, 10160, 10161, 10162, 10178, 10196, 10197),
    ConsumerResetError: (10204,),
    ApiLevelRequiredError: (10185,),
    JetStreamNotEnabledError: (10039, 10076),
    JetStreamUnavailableError: (
        *(10004, 10007, 10008, 10009, 10023, 10118, 10119, 10163, 10167, 10194, 10195, 10210),
        *(10211,),
    ),
    LimitsExceededError: (
        *(10002, 10026, 10027, 10028, 10047, 10053, 10077, 10113, 10117, 10120, 10122),
    ),
    ClusterError: (
        *(10005, 10006, 10010, 10011, 10036, 10040, 10044, 10075, 10123, 10124, 10129, 10202),
        *(10224, 10225, 10226),
    ),
    StoreFailedError: (10049, 10051, 10057, 10062, 10064, 10069, 10072, 10104, 10110),
}
# -- generated: end

ERR_CODES: dict[int, type[APIError]] = {
    number: kind for kind, numbers in _CODES.items() for number in numbers
}
"""Which class an ``err_code`` becomes."""

for _kind in _CODES:
    # The public home of the classes, as tracebacks and pickles should show it.
    _kind.__module__ = "jetsync"


_refused_kinds: dict[type[APIError], type[APIError]] = {}


def _refused_kind(kind: type[APIError]) -> type[APIError]:
    """The class of a publish that was refused with a ``kind``: both that and a NotStoredError."""
    if kind in _refused_kinds:
        return _refused_kinds[kind]
    members = {
        "__module__": kind.__module__,
        "__doc__": kind.__doc__,
        "__reduce__": lambda error: (_remake_refused, (kind, error.args[0], vars(error))),
    }
    made = type(kind.__name__, (kind, NotStoredError), members)
    return _refused_kinds.setdefault(kind, made)


def _remake_refused(kind: type[APIError], text: str, values: dict[str, Any]) -> APIError:
    error = _refused_kind(kind)(text)
    error.__dict__.update(values)
    return error


def refused_publish(reason: APIError, text: str) -> NotStoredError:
    """Make the NotStoredError for a publish that the stream refused. It is of the class of
    ``reason``, too, and has its ``err_code``: both ``except`` clauses catch it. Never raises."""
    if isinstance(reason, NotStoredError):
        return reason
    error = _refused_kind(type(reason))(
        text, code=reason.code, err_code=reason.err_code, description=reason.description
    )
    assert isinstance(error, NotStoredError)
    return error


_REMEDIES = {
    10058: "update_stream changes it, create_or_update_stream replaces its configuration",
    10111: "set allow_rollup_hdrs=True on the stream",
    10148: "it is configured differently: update_consumer changes it",
    10166: "set allow_msg_ttl=True on the stream (limit_marker_ttl on a key-value bucket)",
    10168: "set allow_msg_counter=True on the stream",
    10174: "set allow_atomic=True on the stream",
    10188: "set allow_msg_schedules=True on the stream",
}
"""The remedy for errors whose text from the server names none."""

_VERBS = {"DURABLE", "LEADER", "MSG", "PEER"}
"""Second words of an operation that another verb follows: ``STREAM.MSG.GET.ORDERS``."""


def _about(operation: str) -> dict[str, str]:
    """The stream and the consumer that an operation of the API names."""
    kind, verb, *names = [*operation.split("."), "", ""]
    if verb in _VERBS:
        names = names[1:]
    if kind == "STREAM" or verb in ("LIST", "NAMES"):
        names = names[:1]
    found = zip(("stream", "consumer"), names, strict=False)
    return {of: name for of, name in found if name} if kind in ("STREAM", "CONSUMER") else {}


def api_error(error: Mapping[str, Any], operation: str = "") -> APIError:
    """Make the exception for the ``error`` object of an API answer. Never raises, does not block.

    ``operation`` is what was asked, such as ``STREAM.INFO.ORDERS``. A number that is missing or has
    the wrong type becomes 0.
    """
    if not isinstance(error, Mapping):
        error = {"description": str(error)}
    code, err_code = (
        value if isinstance(value := error.get(name), int) else 0 for name in ("code", "err_code")
    )
    description = str(error.get("description") or "the server gave no reason")
    kind = ERR_CODES.get(err_code, APIError)
    made = kind(code=code, err_code=err_code, description=description, **_about(operation))
    if err_code in _REMEDIES:
        made.args = (f"{made}: {_REMEDIES[err_code]}",)
    return made
