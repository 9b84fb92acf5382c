"""The subscribe workflow: find the stream, bind to a consumer or make it, subscribe.

``plan.py`` checks the call, ``checks.py`` the existing consumer; this module has the order of the
steps. The NATS subscription comes before the consumer, so that a push consumer is bound from its
first moment.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Deadline, Seconds, to_seconds
from jetsync._numbers import check_whole
from jetsync._signatures import spells_out
from jetsync.client.callbacks import check_callback
from jetsync.errors import (
    ConfigError,
    ConsumerExistsError,
    ConsumerInUseError,
    ConsumerMismatchError,
    ConsumerNotFoundError,
    DisconnectedError,
    DuplicateSubscriptionError,
    JetStreamNotEnabledError,
    PermissionsError,
    StreamNotFoundError,
    TimeoutError,
)
from jetsync.jetstream.config.consumer import ConsumerConfig
from jetsync.jetstream.config.consumer_info import ConsumerInfo
from jetsync.jetstream.consumers.consumer import Consumer
from jetsync.jetstream.consumers.manager import ConsumerManager
from jetsync.jetstream.consumers.requests import consumer_info
from jetsync.jetstream.message import JetStreamMsg
from jetsync.jetstream.push.ordered import OrderedPushSubscription
from jetsync.jetstream.push.receiver import PushOptions, begin, end, listen
from jetsync.jetstream.push.subscription import PushSubscription
from jetsync.jetstream.subscribe.checks import check_existing
from jetsync.jetstream.subscribe.plan import Plan, make_plan
from jetsync.jetstream.subscribe.pull_subscription import PullSubscription

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from jetsync.jetstream.config.fields import ConsumerFields, SubscribeFields

__all__ = ["Subscriber"]

FLOW_CONTROL_BYTES = 128 * 2**20
"""Limit of what waits under flow control. A server stops at 32 MiB, per link."""

ROOM_FOR_STATUSES = 64
"""Heartbeats that may wait among the messages of a busy reader before they count as messages."""

_ATTEMPTS = 3

_LEAVING = 0.3
"""Seconds after which a consumer that still counts as bound is bound."""

_ASK_AGAIN = 0.05

# Errors of a lookup by a client that may only pull.
_NO_ANSWER = (TimeoutError, JetStreamNotEnabledError, PermissionsError, DisconnectedError)


class Subscriber(ConsumerManager):
    """The subscribing calls of JetStream. Thread-safe."""

    @spells_out(ConsumerConfig)
    def subscribe(
        self,
        subject: str | None = None,
        *,
        stream: str | None = None,
        consumer: str | None = None,
        durable: str | None = None,
        queue: str | None = None,
        config: ConsumerConfig | Mapping[str, Any] | None = None,
        callback: Callable[[JetStreamMsg], Any] | None = None,
        ordered: bool = False,
        manual_ack: bool = False,
        heartbeat: Seconds | None = None,
        flow_control: bool = False,
        delete_consumer: bool | None = None,
        manual_status: bool = False,
        heartbeat_alarm: Seconds | None = None,
        pending_messages_limit: int | None = None,
        pending_bytes_limit: int | None = None,
        timeout: Seconds | None = None,
        **fields: Unpack[SubscribeFields],
    ) -> PushSubscription:
        """Subscribe to a push consumer, which is bound or made (subscribe workflow, ADR-15).

        Without ``stream`` the one that stores ``subject`` is found. ``consumer`` binds to a
        consumer that exists; ``durable`` binds to it or makes it; without either a consumer is
        made that goes with the subscription. Members of one ``queue`` share the messages of one
        consumer: the queue's name is the durable if none is named. ``config`` and the fields of
        ConsumerConfig say how a new consumer is to be, and are compared with one that exists.
        ``ordered`` gives every message once and in order, over any trouble, without acks.

        With ``callback`` messages go to it one by one on a thread of the subscription's own, and
        are acknowledged when it returns, unless ``manual_ack``; its exceptions go to ``on_error``.
        Without it take them with ``next()`` or by iterating, and acknowledge them yourself.

        ``heartbeat`` (seconds) has the server show that it is alive; after ``heartbeat_alarm``
        seconds (default: three times that) without anything, MissedHeartbeatError goes to
        ``on_error``. ``flow_control`` keeps the server from sending more than we take. Statuses
        are dealt with and never handed out, unless ``manual_status``: then all of them are, and
        nothing is watched, answered or acknowledged. ``pending_messages_limit`` and
        ``pending_bytes_limit`` (default: the connection's; with flow control 128 MiB and no number
        of messages; 0: none) bound what waits.

        ``unsubscribe`` and ``drain`` delete the consumer if this call made it and no ``queue``
        shares it; ``delete_consumer`` overrides that both ways.

        Blocks up to ``timeout`` seconds (default: this object's). Raises ConfigError for what
        cannot be meant, before any I/O; StreamNotFoundError; ConsumerNotFoundError; a
        SubscribeError when the consumer that exists does not fit; the APIError of a refused
        creation.
        """
        alarm = None if heartbeat_alarm is None else to_seconds(heartbeat_alarm, "heartbeat_alarm")
        if alarm == 0:
            raise ConfigError("heartbeat_alarm must be above 0")
        if callback is not None:
            check_callback(callback)
        if ordered and manual_status:
            raise ConfigError("ordered excludes manual_status: it needs the statuses itself")
        limits = pending_messages_limit, pending_bytes_limit
        plan = make_plan(
            subject,
            stream=stream,
            consumer=consumer,
            durable=durable,
            queue=queue,
            config=config,
            fields=fields,
            pull=False,
            ordered=ordered,
            heartbeat=heartbeat,
            flow_control=flow_control,
            messages_limit=self._limits(*limits, False)[0],
        )
        if alarm is not None and not plan.must_exist and not plan.config.idle_heartbeat:
            raise ConfigError("heartbeat_alarm needs heartbeat")
        if alarm is not None and manual_status:
            raise ConfigError("heartbeat_alarm excludes manual_status: then nothing is watched")
        self._api.port.check()
        deadline = self._api.deadline(timeout)
        stream_name = self._stream_of(plan, deadline)
        info = self._look_up(plan, stream_name, deadline)
        known = plan.config if info is None else info.config
        messages_limit, bytes_limit = self._limits(*limits, known.flow_control)
        if messages_limit and known.idle_heartbeat:
            messages_limit += ROOM_FOR_STATUSES
        options = PushOptions(
            callback=callback,
            manual_ack=manual_ack,
            manual_status=manual_status,
            heartbeat_alarm=alarm,
            delete_consumer=delete_consumer,
            messages_limit=messages_limit,
            bytes_limit=bytes_limit,
        )
        push = (
            OrderedPushSubscription(self._api, options, stream_name, plan.to_create)
            if ordered
            else PushSubscription(self._api, plan.queue, options)
        )
        try:
            if info is not None:
                self._bind(push, plan, info, alarm, deadline)
            else:
                self._make(push, plan, stream_name, alarm, deadline)
        except BaseException:
            end(push)
            raise
        return push

    @spells_out(ConsumerConfig)
    def pull_subscribe(
        self,
        subject: str | None = None,
        *,
        stream: str | None = None,
        consumer: str | None = None,
        durable: str | None = None,
        config: ConsumerConfig | Mapping[str, Any] | None = None,
        delete_consumer: bool | None = None,
        timeout: Seconds | None = None,
        **fields: Unpack[ConsumerFields],
    ) -> PullSubscription:
        """Subscribe to a pull consumer, which is bound or made (subscribe workflow).

        ``subject``, ``stream``, ``consumer``, ``durable``, ``config`` and the fields of
        ConsumerConfig mean what they mean for :meth:`subscribe`; the ack policy is explicit. When
        the lookup of ``consumer`` is not answered, because this client may only pull, the consumer
        is assumed to exist. New programs have ``consumer()`` and ``create_consumer()``, whose
        ``fetch``, ``messages`` and ``consume`` do more.

        ``unsubscribe`` deletes the consumer if this call made it; ``delete_consumer`` overrides
        that both ways.

        Blocks up to ``timeout`` seconds (default: this object's). Raises StreamNotFoundError,
        ConsumerNotFoundError or another APIError; a SubscribeError when the consumer that exists
        does not fit; ConfigError before anything is sent; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError.
        """
        plan = make_plan(
            subject,
            stream=stream,
            consumer=consumer,
            durable=durable,
            config=config,
            fields=fields,
            pull=True,
        )
        self._api.port.check()
        deadline = self._api.deadline(timeout)
        name = self._stream_of(plan, deadline)
        try:
            info = self._look_up(plan, name, deadline)
        except _NO_ANSWER:
            if plan.name is None or not plan.must_exist:
                raise
            info = ConsumerInfo(stream_name=name, name=plan.name)
        created = info is None
        handle = None if info is None else Consumer(self._api, info)
        if handle is None:
            try:
                handle = self.create_consumer(
                    name, plan.to_create(None), timeout=deadline.remaining()
                )
            except ConsumerExistsError:
                # Another client made it between the two requests.
                created = False
                info = self._look_up(plan, name, deadline)
                if info is None:
                    raise
                handle = Consumer(self._api, info)
        return PullSubscription(self._api, handle, created=created, delete_consumer=delete_consumer)

    # -- the steps ---------------------------------------------------------------------------------

    def _limits(
        self, messages: int | None, size: int | None, flow_controlled: bool
    ) -> tuple[int, int]:
        for name, value in (("pending_messages_limit", messages), ("pending_bytes_limit", size)):
            if value is not None:
                check_whole(name, value, least=0)
        options = self._api.port.connection.options
        if messages is None:
            messages = 0 if flow_controlled else options.pending_messages_limit
        if size is None:
            size = FLOW_CONTROL_BYTES if flow_controlled else options.pending_bytes_limit
        return messages, size

    def _stream_of(self, plan: Plan, deadline: Deadline) -> str:
        """The stream that was named, or the only one that stores the subject."""
        if plan.stream is not None:
            return plan.stream
        answer = self._api.request(
            "STREAM.NAMES",
            {"subject": plan.subject},
            timeout=deadline.remaining(),
            repeatable=True,
        )
        names = answer.get("streams") or []
        if len(names) == 1:
            return str(names[0])
        what = "no stream stores messages on it"
        if names:
            found = ", ".join(sorted(map(str, names)))
            what = f"several streams store messages on it ({found}): give stream="
        raise StreamNotFoundError(
            f"no matching stream for {plan.subject!r}: {what}",
            code=404,
            err_code=10059,
            description="no matching stream name",
        )

    def _look_up(self, plan: Plan, stream: str, deadline: Deadline) -> ConsumerInfo | None:
        """The consumer that is asked for, checked; None when it is to be made."""
        if plan.name is None:
            return None
        patience = Deadline(deadline.within(_LEAVING))
        while True:
            try:
                info = consumer_info(self._api, stream, plan.name, deadline.remaining())
            except ConsumerNotFoundError:
                if plan.must_exist:
                    raise
                return None
            try:
                check_existing(plan, info)
            except DuplicateSubscriptionError:
                # A server takes a moment to see that the bound subscriber has left.
                if patience.expired:
                    raise
                self._api.port.sleep(_ASK_AGAIN)
            else:
                return info

    def _bind(
        self,
        push: PushSubscription,
        plan: Plan,
        info: ConsumerInfo,
        alarm: float | None,
        deadline: Deadline,
    ) -> None:
        """Receive from a consumer that exists."""
        deliver = info.config.deliver_subject or ""
        wanted = plan.asked.get("deliver_subject") or deliver
        if alarm is not None and not info.config.idle_heartbeat:
            raise ConfigError(f"heartbeat_alarm: consumer {info.name!r} sends no heartbeats")
        listen(push, wanted)
        if wanted != deliver:
            info = self._move(info, wanted, deadline)
        begin(push, info, created=False)

    def _move(self, info: ConsumerInfo, wanted: str, deadline: Deadline) -> ConsumerInfo:
        """Change its deliver subject: the only field that subscribing may change."""
        config = dataclasses.replace(info.config, deliver_subject=wanted)
        try:
            if info.push_bound:
                raise ConsumerInUseError("another subscriber receives from it")
            return self.update_consumer(
                info.stream_name, config, timeout=deadline.remaining()
            ).cached_info
        except ConsumerInUseError as error:
            theirs = info.config.deliver_subject
            raise ConsumerMismatchError(
                f"consumer {info.name!r} of stream {info.stream_name!r} delivers to another "
                "subject, which can only change while no subscriber receives from it: "
                f"deliver_subject: yours {wanted!r}, the server's {theirs!r}",
                fields={"deliver_subject": (wanted, theirs)},
            ) from error

    def _make(
        self,
        push: PushSubscription,
        plan: Plan,
        stream: str,
        alarm: float | None,
        deadline: Deadline,
    ) -> None:
        """Make the consumer, also when another client makes the same one at this moment."""
        for attempt in itertools.count(1):
            listen(push, plan.config.deliver_subject or self._api.port.new_inbox())
            try:
                made = self.create_consumer(
                    stream, plan.to_create(push.subject), timeout=deadline.remaining()
                )
            except ConsumerExistsError:
                info = self._look_up(plan, stream, deadline)
                if info is None and attempt < _ATTEMPTS:
                    continue  # another client made it, and deleted it again
                if info is None or plan.queue is None:
                    # Only a group can have more than one member.
                    raise
                self._bind(push, plan, info, alarm, deadline)
            else:
                begin(push, made.cached_info, created=True)
            return
