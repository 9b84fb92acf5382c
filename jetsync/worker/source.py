"""Opening a source: the connection, the consumer, and whether it suits a worker."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from jetsync._log import Log
from jetsync.errors import ConfigError, Error
from jetsync.jetstream.settle import Feed, lift_max_deliver
from jetsync.jetstream.settle.dead_letter import error_text
from jetsync.worker.options import WorkerOptions, WorkSource

if TYPE_CHECKING:
    from jetsync import Connection, Consumer, ConsumerConfig, ConsumerInfo

__all__ = ["Opened"]

logger: Log = Log("jetsync.worker")


class Opened:
    """An open source: its ``feed``, and the connection when it is the worker's own.

    Blocks while it connects and asks the server. Raises ConfigError for a consumer that does not
    suit, ConsumerNotFoundError and what ``connect`` raises.
    """

    def __init__(self, source: Any, options: WorkerOptions) -> None:
        self._own: Connection | None = None
        try:
            consumer, group = self._consumer(source, options)
            info = consumer.info()
            _check(info, options, group)
            if _drops(info.config, options):
                _lift(consumer, info)
            self.pending_acks: int = info.num_ack_pending
            if isinstance(source, WorkSource):
                feed_of, extra = consumer, {} if group is None else {"group": group}
            else:
                feed_of, extra = source, {}
            self.feed: Feed = Feed(feed_of, options.most_held, **extra)
            self.connection: Connection = self.feed.connection
            self.stream: str = info.stream_name
            self.consumer: str = info.name
        except BaseException:
            self.close()
            raise

    def _consumer(self, source: Any, options: WorkerOptions) -> tuple[Any, str | None]:
        from jetsync import connect

        if isinstance(source, WorkSource):
            self._own = nc = connect(options=source.options)
            js = nc.jetstream()
            if (create := source.create) is not None:
                if create.durable_name != source.consumer:
                    raise ConfigError("create of a WorkSource must have the name of its consumer")
                if _drops(create, options):  # not even for a moment: other processes work already
                    create = dataclasses.replace(create, max_deliver=-1)
                return js.create_or_update_consumer(source.stream, create), source.group
            return js.consumer(source.stream, source.consumer), source.group
        if not callable(getattr(source, "messages", None)):
            raise ConfigError(
                "the source of a worker is a Consumer, a WorkSource or has messages(), "
                f"not {type(source).__name__}"
            )
        inner = getattr(source, "consumer", None)
        return (source, None) if inner is None else (inner, "of its member")

    def close(self) -> None:
        """Close the connection if it is the worker's own. Blocks while it closes."""
        if self._own is not None:
            self._own.close()


def _drops(config: ConsumerConfig | None, options: WorkerOptions) -> bool:
    """Whether the server would drop messages of which the worker owes a dead letter: those whose
    last deliveries died with a process, were handed back by a drain, or could not be stored."""
    if config is None or options.dead_letter is None:
        return False
    return config.max_deliver > options.crash_tries


def _lift(consumer: Consumer, info: ConsumerInfo) -> None:
    assert info.config is not None
    name, most = f"consumer {info.name!r} of stream {info.stream_name!r}", info.config.max_deliver
    try:
        lift_max_deliver(consumer)
    except Error as error:
        logger.warning(
            "%s has max_deliver %d, which could not be changed (%s): the server drops a message "
            "whose delivery %d is not settled, and it becomes no dead letter; give it "
            "max_deliver=-1",
            name,
            most,
            error_text(error),
            most,
        )
    else:
        logger.warning(
            "%s had max_deliver %d; it is -1 now, since the server drops messages at that limit "
            "before they are dead letters, and the worker counts deliveries itself",
            name,
            most,
        )


def _check(info: ConsumerInfo, options: WorkerOptions, group: str | None) -> None:
    config, name = info.config, f"consumer {info.name!r} of stream {info.stream_name!r}"
    if config is None:
        return
    if config.deliver_subject:
        raise ConfigError(f"{name} is a push consumer; a worker pulls: create one without it")
    if config.ack_policy != "explicit":
        raise ConfigError(
            f"{name} has ack_policy {config.ack_policy}; a worker needs 'explicit', since it "
            "acknowledges each message by itself"
        )
    if config.priority_groups and group is None:
        raise ConfigError(
            f"{name} has priority groups: give WorkSource(..., group=), or a source whose "
            "messages() name one"
        )
    most = config.max_deliver
    if most is not None and 0 < most <= options.crash_tries:
        raise ConfigError(
            f"{name} has max_deliver {most}, which must be above crash_tries "
            f"({options.crash_tries}), or -1: else the server drops messages before they are dead "
            "letters"
        )
    most = options.most_held
    if config.max_ack_pending and 0 < config.max_ack_pending < most:
        raise ConfigError(
            f"prefetch ({most}) is above max_ack_pending ({config.max_ack_pending}) of "
            f"{name}: lower prefetch and threads, or raise max_ack_pending"
        )
