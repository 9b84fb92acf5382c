"""BoundConsumer: the consumer behind a subscription, and whether it ends with it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from jetsync._deadline import Deadline, Seconds
from jetsync.client.port import Member
from jetsync.errors import (
    ConsumerNotFoundError,
    Error,
    StreamNotFoundError,
)
from jetsync.jetstream.api import API
from jetsync.jetstream.config.consumer_info import ConsumerInfo
from jetsync.jetstream.consumers.requests import consumer_info, delete_consumer

__all__ = ["BoundConsumer", "unsubscribe_at_exit"]


def unsubscribe_at_exit(
    unsubscribe: Callable[[], object], raised: type[BaseException] | None
) -> None:
    """Unsubscribe at the end of a ``with`` block. When the block has ``raised``, its exception
    counts, and what unsubscribing raises is dropped."""
    with contextlib.suppress(*([] if raised is None else [Error])):
        unsubscribe()


class BoundConsumer(Member):
    """The consumer of a subscription.

    It is deleted with the subscription if the subscription made it and no queue group may share it;
    ``override`` decides otherwise, both ways. Thread-safe.
    """

    def __init__(
        self,
        api: API,
        info: ConsumerInfo,
        *,
        created: bool = False,
        shared: bool = False,
        override: bool | None = None,
    ) -> None:
        self._api = api
        self.info: ConsumerInfo = info
        self.created = created
        self._delete = (created and not shared) if override is None else override

    @property
    def stream_name(self) -> str:
        return self.info.stream_name

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def ends_with_subscription(self) -> bool:
        """Whether :meth:`delete` will delete it."""
        return self._delete

    def ask(self, timeout: Seconds | None) -> ConsumerInfo:
        """Look it up. Blocks; raises ConsumerNotFoundError, TimeoutError."""
        self.info = consumer_info(self._api, self.stream_name, self.name, timeout)
        return self.info

    def forget(self) -> None:
        """It is gone already."""
        self._delete = False

    def delete(self, timeout: Seconds | None = None) -> None:
        """Delete it if it ends with the subscription. Blocks; raises what goes wrong, except that
        it was deleted already. Safe to repeat."""
        delete, self._delete = self._delete, False
        if delete:
            # Repeatable, unlike the user's own call: here "not found" is a success too.
            with contextlib.suppress(ConsumerNotFoundError, StreamNotFoundError):
                delete_consumer(self._api, self.stream_name, self.name, timeout, repeatable=True)

    def delete_and_tell(self, timeout: Seconds | None = None) -> Error | None:
        """Like :meth:`delete`, where no caller can receive the error: it is reported to
        ``on_error`` and returned."""
        try:
            self.delete(timeout)
        except Error as error:
            self._api.port.report(error)
            return error
        return None

    def drain(self, deadline: Deadline) -> None:
        """The connection drains, and the subscription with it."""
        self.delete_and_tell(deadline.remaining())

    def join(self, timeout: float | None) -> None:
        """There is no thread to wait for when the connection closes."""
