"""How a consumer is configured: ``ConsumerConfig`` and its enumerations.

Fields have their NATS JSON names. Durations are seconds (``float`` or ``timedelta``). None means
that the server decides; what it takes is said with each field. "Server 2.10" says which server a
field needs at least; no remark means every server with JetStream has it. Source: nats-server 2.15,
ADR-15, ADR-37, ADR-42.
"""

# ruff: noqa: RUF009  (the calls in the class bodies return dataclasses.field, which ruff cannot see)

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from jetsync._counted import counted
from jetsync.errors import ConfigError
from jetsync.jetstream._wire import (
    Duration,
    Durations,
    Listing,
    MaybeDuration,
    WireEnum,
    WireObject,
    choice,
    flag,
    integer,
    listing,
    mapping,
    seconds,
    text,
    time,
)
from jetsync.jetstream.config.stream import check_field, check_texts
from jetsync.jetstream.config.stream_rules import check_overlap
from jetsync.protocol.subjects import check_name, check_publish_subject, check_subscribe_subject

__all__ = ["AckPolicy", "ConsumerConfig", "DeliverPolicy", "PriorityPolicy", "ReplayPolicy"]

_GROUP_NAME = re.compile(r"[a-zA-Z0-9/_=-]{1,16}", re.ASCII)
_SAMPLING = re.compile(r"\d+%?", re.ASCII)


class DeliverPolicy(WireEnum):
    """Where in the stream a consumer begins."""

    ALL = "all"
    """At the first message."""
    LAST = "last"
    """At the last message."""
    NEW = "new"
    """After the last message."""
    BY_START_SEQUENCE = "by_start_sequence"
    """At ``opt_start_seq``."""
    BY_START_TIME = "by_start_time"
    """At the first message not older than ``opt_start_time``."""
    LAST_PER_SUBJECT = "last_per_subject"
    """With the last message of each subject; needs a filter. Server 2.3.3."""


class AckPolicy(WireEnum):
    """Which messages an acknowledgement settles."""

    NONE = "none"
    """Nothing: messages count as done when they are sent."""
    ALL = "all"
    """This message and all before it are done."""
    EXPLICIT = "explicit"
    """This message is done."""
    FLOW_CONTROL = "flow_control"
    """Answers to flow control acknowledge; for sourcing between streams. Server 2.14."""


class ReplayPolicy(WireEnum):
    """How fast stored messages are delivered."""

    INSTANT = "instant"
    """As fast as possible."""
    ORIGINAL = "original"
    """With the pauses they were published with."""


class PriorityPolicy(WireEnum):
    """How the members of a priority group share the messages. Server 2.11."""

    NONE = "none"
    """There are no groups."""
    OVERFLOW = "overflow"
    """A pull gets messages only above the ``min_pending`` or ``min_ack_pending`` it names."""
    PINNED_CLIENT = "pinned_client"
    """One client gets them all until it is gone for ``priority_timeout``."""
    PRIORITIZED = "prioritized"
    """The pulls with the lowest ``priority`` come first. Server 2.12."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ConsumerConfig(WireObject):
    """The configuration of a consumer. Frozen; ``dataclasses.replace`` gives a changed copy.

    With ``deliver_subject`` it is a push consumer, else a pull consumer. Raises ``ConfigError``,
    naming the field, for what can never be right; :meth:`validate` checks what is about to be sent.
    """

    name: str | None = text(None)
    """Name, at most 255 bytes, without spaces and ``. * > / \\``. Server 2.9."""
    durable_name: str | None = text(None)
    """Its name if it is to stay when unused. Equal to ``name`` if both are given."""
    description: str | None = text(None)
    """Its purpose as a text of at most 4096 bytes. Server 2.3.3."""
    deliver_policy: DeliverPolicy | str = choice(DeliverPolicy.ALL)
    """Where to begin. Cannot be changed."""
    opt_start_seq: int | None = integer(None)
    """The sequence to begin at, for ``by_start_sequence`` only. Cannot be changed."""
    opt_start_time: datetime | None = time()
    """The time (with time zone) to begin at, for ``by_start_time`` only. Cannot be changed."""
    ack_policy: AckPolicy | str = choice(AckPolicy.EXPLICIT, always=True)
    """The meaning of acknowledgements. Always sent: without it a server takes ``none``. Cannot be
    changed."""
    ack_wait: MaybeDuration = seconds(None)
    """Seconds until an unacknowledged message is delivered again; 30 by default."""
    max_deliver: int = integer(-1, least=-1)
    """Most deliveries of one message; -1 for no limit."""
    backoff: Durations = listing(float)
    """Waiting times, in seconds, after the first, second, ... delivery, in place of ``ack_wait``;
    not more of them than ``max_deliver``. Server 2.7.1."""
    filter_subject: str | None = text(None)
    """Take only this subject; wildcards allowed. Excludes ``filter_subjects``."""
    filter_subjects: Listing[str] = listing(str)
    """Take only these subjects, which must not overlap. Server 2.10."""
    replay_policy: ReplayPolicy | str = choice(ReplayPolicy.INSTANT)
    """How fast to deliver. Cannot be changed."""
    rate_limit_bps: int = integer(0)
    """Most bits per second, for push consumers; 0 for no limit."""
    sample_freq: str | None = text(None)
    """Share of acknowledgements that are reported as metrics, such as ``"50%"``."""
    max_waiting: int | None = integer(None)
    """Most waiting pulls, for pull consumers; 512 by default. Cannot be changed."""
    max_ack_pending: int | None = integer(None, least=-1)
    """Most messages delivered and not yet acknowledged, then delivery pauses; 1000 by default, -1
    for no limit."""
    flow_control: bool = flag()
    """Let the server ask a push client whether it keeps up; needs ``idle_heartbeat``. Cannot be
    changed."""
    headers_only: bool = flag()
    """Deliver headers without payloads; ``Nats-Msg-Size`` has the size. Server 2.6.2."""
    max_batch: int | None = integer(None)
    """Most messages one pull may ask for; no limit by default. Server 2.7."""
    max_expires: MaybeDuration = seconds(None)
    """Longest time, in seconds, one pull may wait; no limit by default. Server 2.7."""
    max_bytes: int | None = integer(None)
    """Most bytes one pull may ask for; no limit by default. Server 2.8.3."""
    deliver_subject: str | None = text(None)
    """Where messages are pushed to: a subject without wildcards. Absent for pull consumers."""
    deliver_group: str | None = text(None)
    """Queue group that shares the pushed messages. Server 2.4."""
    idle_heartbeat: Duration = seconds(0.0)
    """Send a heartbeat to a push client after so many idle seconds, at least 0.1; 0 for none.
    Cannot be changed."""
    inactive_threshold: MaybeDuration = seconds(None)
    """Seconds after which the unused consumer is deleted; by default 5 without ``durable_name``,
    and never with it. Server 2.7."""
    num_replicas: int = integer(0, most=5)
    """How many servers hold its state, at most as many as hold the stream; 0 for as many. Server
    2.8.3."""
    mem_storage: bool = flag()
    """Keep its state in memory. Cannot be changed. Server 2.8.3."""
    direct: bool = flag()
    """Used between servers only."""
    sourcing: bool = flag()
    """Used between servers only. Server 2.14."""
    metadata: Mapping[str, str] = mapping(str)
    """Your own names and values, 128 KiB in all; the server adds some that begin with ``_nats.``.
    Server 2.10."""
    pause_until: datetime | None = time()
    """Deliver nothing until then (with time zone). Later changes only by pausing. Server 2.11."""
    priority_groups: Listing[str] = listing(str)
    """Names of the priority groups, each at most 16 of ``A-Z a-z 0-9 / _ = -``; for pull consumers.
    Server 2.11."""
    priority_policy: PriorityPolicy | str = choice(PriorityPolicy.NONE)
    """How a group shares the messages; needs ``priority_groups``. Server 2.11."""
    priority_timeout: MaybeDuration = seconds(None)
    """Seconds without a pull after which a pinned client is replaced; 120 by default. Server
    2.11."""

    @property
    def opt_start_time_ns(self) -> int | None:
        """``opt_start_time`` in nanoseconds since 1970."""
        return self._time_ns("opt_start_time")

    def validate(self) -> None:
        """Raise ``ConfigError``, naming the field, for what the server would certainly refuse.

        What contradicts itself is refused when the object is made. This also refuses what is
        incomplete, such as a heartbeat without a ``deliver_subject``, which a subscribing call may
        still fill in. Does not block.
        """
        self._check()
        for field in ("idle_heartbeat", "flow_control", "rate_limit_bps", "deliver_group"):
            if getattr(self, field) and not self.deliver_subject:
                raise ConfigError(
                    f"ConsumerConfig.{field} needs deliver_subject: it is for push consumers"
                )
        if not self.deliver_subject and (self.direct or self.ack_policy == AckPolicy.FLOW_CONTROL):
            field = "direct" if self.direct else "ack_policy 'flow_control'"
            raise ConfigError(
                f"ConsumerConfig.{field} needs deliver_subject: it is for push consumers"
            )
        if self.deliver_subject and self.ack_policy == AckPolicy.NONE and self.max_ack_pending:
            raise ConfigError(
                "ConsumerConfig.max_ack_pending needs another ack_policy than 'none' with "
                "deliver_subject"
            )
        if self.flow_control and not self.idle_heartbeat:
            raise ConfigError("ConsumerConfig.flow_control needs idle_heartbeat")
        for field, owner in _START_FIELDS.items():
            if self.deliver_policy == owner and not getattr(self, field):
                raise ConfigError(f"ConsumerConfig.{field} is missing: deliver_policy is {owner}")
        filtered = self.filter_subject or self.filter_subjects
        if self.deliver_policy == DeliverPolicy.LAST_PER_SUBJECT and not filtered:
            raise ConfigError(
                "ConsumerConfig.filter_subject is missing: deliver_policy is last_per_subject "
                "(for all subjects give '>')"
            )
        if self.priority_policy == PriorityPolicy.NONE:
            for field in ("priority_groups", "priority_timeout"):
                if getattr(self, field):
                    raise ConfigError(f"ConsumerConfig.{field} needs a priority_policy")
        elif not self.priority_groups:
            raise ConfigError("ConsumerConfig.priority_groups is missing: there is a policy")

    def _check(self) -> None:
        for field in ("name", "durable_name"):
            value = getattr(self, field)
            if value:
                check_field(
                    f"ConsumerConfig.{field}", lambda name: check_name("consumer", name), value
                )
        if self.name and self.durable_name and self.name != self.durable_name:
            raise ConfigError(
                f"ConsumerConfig.durable_name {self.durable_name!r} differs from name {self.name!r}"
            )
        check_texts("ConsumerConfig", self.description, self.metadata)
        self._check_filters()
        self._check_delivery()
        self._check_push()
        for group in self.priority_groups:
            if not _GROUP_NAME.fullmatch(group):
                raise ConfigError(
                    "ConsumerConfig.priority_groups: a name has 1 to 16 of A-Z a-z 0-9 / _ = -, "
                    f"not {group!r}"
                )

    def _check_filters(self) -> None:
        if self.filter_subject and self.filter_subjects:
            raise ConfigError("ConsumerConfig.filter_subject excludes filter_subjects: give one")
        if self.filter_subject:
            check_field(
                "ConsumerConfig.filter_subject", check_subscribe_subject, self.filter_subject
            )
        for subject in self.filter_subjects:
            check_field("ConsumerConfig.filter_subjects", check_subscribe_subject, subject)
        check_overlap("ConsumerConfig.filter_subjects", self.filter_subjects)

    def _check_delivery(self) -> None:
        policy = self.deliver_policy
        for field, owner in _START_FIELDS.items():
            # A policy that only a newer server knows has rules that cannot be checked here.
            if getattr(self, field) and isinstance(policy, DeliverPolicy) and policy != owner:
                raise ConfigError(
                    f"ConsumerConfig.{field} needs deliver_policy={str(owner)!r}, not {policy}"
                )
        if 0 < self.max_deliver < len(self.backoff):
            raise ConfigError(
                f"ConsumerConfig.backoff has {counted(len(self.backoff), 'value')}, more than "
                f"max_deliver ({self.max_deliver})"
            )
        if self.sample_freq and not _SAMPLING.fullmatch(self.sample_freq):
            raise ConfigError(
                "ConsumerConfig.sample_freq must be a percentage such as '50%', got "
                f"{self.sample_freq!r}"
            )
        if self.max_expires and self.max_expires < 0.001:
            raise ConfigError(
                f"ConsumerConfig.max_expires must be at least 0.001 s, got {self.max_expires}"
            )
        if 0 < self.idle_heartbeat < 0.1:
            raise ConfigError(
                f"ConsumerConfig.idle_heartbeat must be at least 0.1 s, got {self.idle_heartbeat}"
            )

    def _check_push(self) -> None:
        if not self.deliver_subject:
            return
        check_field("ConsumerConfig.deliver_subject", _check_literal, self.deliver_subject)
        for field in ("max_waiting", "priority_groups", "priority_timeout"):
            if getattr(self, field):
                raise ConfigError(
                    f"ConsumerConfig.{field} excludes deliver_subject: it is for pull consumers"
                )
        if self.priority_policy != PriorityPolicy.NONE:
            raise ConfigError(
                "ConsumerConfig.priority_policy excludes deliver_subject: it is for pull consumers"
            )


_START_FIELDS = {
    "opt_start_seq": DeliverPolicy.BY_START_SEQUENCE,
    "opt_start_time": DeliverPolicy.BY_START_TIME,
}


def _check_literal(subject: str) -> str:
    return check_publish_subject(check_subscribe_subject(subject))
