"""OrderedConsumers: the call of JetStream that makes an ordered consumer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from jetsync._deadline import Seconds, to_seconds
from jetsync._numbers import check_whole
from jetsync.jetstream.api import API
from jetsync.jetstream.ordered.config import ordered_config
from jetsync.jetstream.ordered.consumer import OrderedConsumer
from jetsync.jetstream.ordered.reader import OrderedReader

if TYPE_CHECKING:
    from jetsync.jetstream.config.consumer import DeliverPolicy, ReplayPolicy
    from jetsync.jetstream.config.fields import DeliverPolicyText, ReplayPolicyText

__all__ = ["OrderedConsumers"]


class OrderedConsumers:
    """The call of JetStream for ordered consumers. Thread-safe."""

    _api: API

    def ordered_consumer(
        self,
        stream: str,
        *,
        filter_subjects: str | Sequence[str] | None = None,
        deliver_policy: DeliverPolicy | DeliverPolicyText = "all",
        opt_start_seq: int | None = None,
        opt_start_time: datetime | None = None,
        headers_only: bool = False,
        replay_policy: ReplayPolicy | ReplayPolicyText = "instant",
        inactive_threshold: Seconds = 300.0,
        max_reset_attempts: int = -1,
        name_prefix: str = "",
        metadata: Mapping[str, str] | None = None,
        timeout: Seconds | None = None,
    ) -> OrderedConsumer:
        """Return a reader that gets every message of a stream exactly once and in order (ADR-17).

        ``deliver_policy``, ``opt_start_seq`` and ``opt_start_time`` say where to begin, decided now
        and not at the first reset; ``filter_subjects`` (one, or several that do not overlap) which
        subjects. With ``headers_only`` payloads are left out. A server consumer without a pull for
        ``inactive_threshold`` seconds ends; the next read makes another. After
        ``max_reset_attempts`` resets in a row without a message or a heartbeat between them reading
        raises JetStreamError (-1: it tries for ever). Server consumers are called ``name_prefix``
        and a unique text, and have ``metadata``; ``replay_policy`` says how fast they send.

        Reading raises StreamNotFoundError when the stream is gone, and JetStreamError when it was
        made again or has lost messages that were read: then its position in the stream has no
        meaning any more. Interest and work-queue streams are not for this: there reading deletes,
        or is refused.

        Blocks for two round trips, up to ``timeout`` seconds (default: this object's). Raises
        StreamNotFoundError, InvalidConsumerConfigError or another APIError; ConfigError before
        anything is sent; TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        check_whole("max_reset_attempts", max_reset_attempts, least=-1)
        config = ordered_config(
            filter_subjects=filter_subjects,
            deliver_policy=deliver_policy,
            opt_start_seq=opt_start_seq,
            opt_start_time=opt_start_time,
            headers_only=headers_only,
            replay_policy=replay_policy,
            inactive_threshold=inactive_threshold,
            metadata=metadata,
        )
        reader = OrderedReader(self._api, stream, config, name_prefix, max_reset_attempts)
        reader.begin(self._api.timeout if timeout is None else to_seconds(timeout))
        return OrderedConsumer(reader)
