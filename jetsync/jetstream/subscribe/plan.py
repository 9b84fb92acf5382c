"""The plan of a subscribe call, checked before anything is sent."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from jetsync._deadline import Seconds, to_seconds
from jetsync.errors import ConfigError
from jetsync.jetstream._wire import build
from jetsync.jetstream.config.consumer import AckPolicy, ConsumerConfig
from jetsync.protocol.subjects import check_name, check_queue, check_subscribe_subject

__all__ = ["DEFAULT_HEARTBEAT", "Plan", "make_plan"]

DEFAULT_HEARTBEAT = 5.0
"""Seconds between heartbeats where one is needed and none was named."""

ORDERED_THRESHOLD = 30.0
"""Seconds without a subscriber after which the server deletes an ordered consumer."""

SERVER_MAX_ACK_PENDING = 1000
"""The server's default of ``max_ack_pending``."""

_PUSH_ONLY = ("deliver_subject", "deliver_group", "idle_heartbeat", "flow_control")
_PULL_ONLY = (
    "max_waiting",
    "max_batch",
    "max_expires",
    "max_bytes",
    "priority_groups",
    "priority_policy",
    "priority_timeout",
)
# The fixed fields of an ordered consumer; other values contradict it.
_ORDERED: dict[str, Any] = {
    "ack_policy": AckPolicy.NONE,
    "max_deliver": 1,
    "mem_storage": True,
    "num_replicas": 1,
    "flow_control": True,
}


@dataclasses.dataclass(frozen=True)
class Plan:
    """A checked subscribe call. ``asked`` are the configuration fields that were given."""

    subject: str | None
    stream: str | None
    name: str | None
    """The consumer to look for; None: a new one without a name of the caller's."""
    must_exist: bool
    queue: str | None
    pull: bool
    ordered: bool
    asked: Mapping[str, Any]
    config: ConsumerConfig
    """The fields of a new consumer; a push consumer's deliver subject is added later."""

    def to_create(self, deliver_subject: str | None) -> ConsumerConfig:
        """The configuration of a new consumer."""
        return build(
            ConsumerConfig,
            self.config,
            {} if deliver_subject is None else {"deliver_subject": deliver_subject},
        )


def make_plan(
    subject: str | None,
    *,
    stream: str | None,
    consumer: str | None,
    durable: str | None,
    queue: str | None = None,
    config: ConsumerConfig | Mapping[str, Any] | None,
    fields: Mapping[str, Any],
    pull: bool,
    ordered: bool = False,
    heartbeat: Seconds | None = None,
    flow_control: bool = False,
    messages_limit: int = 0,
) -> Plan:
    """Make the plan of a call. Raises ConfigError for contradictory options. No I/O."""
    asked = _asked(config, fields)
    if heartbeat is not None:
        seconds = to_seconds(heartbeat, "heartbeat")
        _agree(asked, "idle_heartbeat", seconds or None, "heartbeat")
    if flow_control:
        asked["flow_control"] = True
    if subject is None and stream is None:
        raise ConfigError("subscribing needs a subject or a stream: nothing says where to look")
    if subject is not None:
        check_subscribe_subject(subject)
    if stream is not None:
        check_name("stream", stream)
    _agree(asked, "durable_name", durable, "durable")
    _agree(asked, "deliver_group", queue, "queue")
    queue = asked.get("deliver_group")
    name = _name(asked, consumer, queue)
    if subject is not None and not asked.get("filter_subjects"):
        _agree(asked, "filter_subject", subject, "subject")
    if pull:
        _check_pull(asked)
    else:
        _check_push(asked, queue)
    wanted = dict(asked)
    if ordered:
        _check_ordered(asked, name, queue)
        wanted.update(_ORDERED)
        wanted.setdefault("inactive_threshold", ORDERED_THRESHOLD)
    if queue and name and consumer is None and "name" not in asked:
        # Members that name no consumer meet on the durable with the name of their group.
        wanted["durable_name"] = name
    if wanted.get("flow_control"):
        # The server requires it, so that a lost flow control request is repeated.
        wanted.setdefault("idle_heartbeat", DEFAULT_HEARTBEAT)
    acks = wanted.get("ack_policy", AckPolicy.EXPLICIT) != AckPolicy.NONE
    if (
        acks
        and not pull
        and not wanted.get("flow_control")
        and 0 < messages_limit < SERVER_MAX_ACK_PENDING
    ):
        # The server sends no more than that unacknowledged, so no message has to be dropped here.
        wanted.setdefault("max_ack_pending", messages_limit)
    planned = ConsumerConfig(**wanted)
    # With a placeholder for the later inbox every field can be checked now.
    probe = {} if pull or planned.deliver_subject else {"deliver_subject": "_INBOX.x"}
    build(ConsumerConfig, planned, probe)
    return Plan(subject, stream, name, consumer is not None, queue, pull, ordered, asked, planned)


def _asked(
    config: ConsumerConfig | Mapping[str, Any] | None, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields that were given, as they read back: keywords override those of ``config``."""
    if isinstance(config, Mapping):
        fields, config = {**config, **fields}, None
    given = {name: value for name, value in fields.items() if value is not None}
    # build() also finds wrong names and types, but not yet what is only incomplete.
    known = {field.name for field in dataclasses.fields(ConsumerConfig)}
    if not known.issuperset(given):
        build(ConsumerConfig, None, given)
    if config is None:
        made = ConsumerConfig(**given)
        names = set(given)
    elif isinstance(config, ConsumerConfig):
        made = dataclasses.replace(config, **given)
        names = set(given) | set(config.to_wire())
    else:
        raise ConfigError(
            f"config must be a ConsumerConfig or a mapping, not {type(config).__name__}"
        )
    return {name: getattr(made, name) for name in names if name != "extra"}


def _agree(asked: dict[str, Any], field: str, value: Any, parameter: str) -> None:
    """Take a parameter that is another name of a configuration field; equal values may be given
    twice."""
    if value is None:
        return
    there = asked.get(field)
    if there and there != value:
        raise ConfigError(f"{parameter}={value!r} and {field}={there!r} contradict each other")
    asked[field] = value


def _name(asked: Mapping[str, Any], consumer: str | None, queue: str | None) -> str | None:
    durable = asked.get("durable_name") or asked.get("name")
    for what, text in (("consumer", consumer), ("durable", durable)):
        if text is not None:
            check_name(what, text)
    if consumer is not None and durable is not None and consumer != durable:
        raise ConfigError(
            f"consumer={consumer!r} (bind to it) and durable={durable!r} (bind to it or make it) "
            "contradict each other: give one"
        )
    if queue is not None:
        check_queue(queue)
        if consumer is None and durable is None:
            return check_name("queue, which becomes the durable", queue)
    return consumer or durable


def _check_push(asked: Mapping[str, Any], queue: str | None) -> None:
    for field in _PULL_ONLY:
        if asked.get(field) and asked[field] != "none":
            raise ConfigError(f"{field} is for pull consumers: use pull_subscribe")
    if queue is None:
        return
    for field, what in (("idle_heartbeat", "heartbeats"), ("flow_control", "flow control")):
        if asked.get(field):
            raise ConfigError(
                f"{what} cannot be used with queue={queue!r}: they would go to any one member of "
                "the group"
            )


def _check_pull(asked: Mapping[str, Any]) -> None:
    for field in _PUSH_ONLY:
        if asked.get(field):
            raise ConfigError(f"{field} is for push consumers: use subscribe")
    policy = asked.get("ack_policy", AckPolicy.EXPLICIT)
    if policy in (AckPolicy.NONE, AckPolicy.ALL):
        raise ConfigError(
            f"pull_subscribe needs ack_policy 'explicit', not {str(policy)!r}; create_consumer() "
            "and fetch() take others"
        )


def _check_ordered(asked: Mapping[str, Any], name: str | None, queue: str | None) -> None:
    if queue is not None:
        raise ConfigError("ordered excludes queue: one subscriber gets every message in order")
    if name is not None:
        raise ConfigError(
            f"ordered excludes a consumer of a name ({name!r}): it is made anew when needed"
        )
    if asked.get("deliver_subject"):
        raise ConfigError("ordered excludes deliver_subject: it changes with every reset")
    for field, value in _ORDERED.items():
        if field in asked and asked[field] != value:
            shown = str(value) if field == "ack_policy" else value
            raise ConfigError(f"ordered needs {field}={shown!r}, not {asked[field]!r}")
