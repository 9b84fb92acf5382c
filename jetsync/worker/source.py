"""Opening a source: the connection, the consumer, and whether it suits a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetsync.errors import ConfigError
from jetsync.jetstream.settle import Feed
from jetsync.worker.options import WorkerOptions, WorkSource

if TYPE_CHECKING:
    from jetsync import Connection, ConsumerInfo

__all__ = ["Opened"]


class Opened:
    """An open source: its ``feed``, and the connection when it is the worker's own.

    Blocks while it connects and asks the server. Raises ConfigError for a consumer that does not
    suit, ConsumerNotFoundError and what ``connect`` raises.
    """

    def __init__(self, source: Any, options: WorkerOptions) -> None:
        self._own: Connection | None = None
        try:
            consumer, group = self._consumer(source)
            info = consumer.info()
            _check(info, options, group)
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

    def _consumer(self, source: Any) -> tuple[Any, str | None]:
        from jetsync import connect

        if isinstance(source, WorkSource):
            self._own = nc = connect(options=source.options)
            js = nc.jetstream()
            if source.create is not None:
                if source.create.durable_name != source.consumer:
                    raise ConfigError("create of a WorkSource must have the name of its consumer")
                return js.create_or_update_consumer(source.stream, source.create), source.group
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
