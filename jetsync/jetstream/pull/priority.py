"""Priority groups of pull consumers (ADR-42): checks of the options, and the pinned client."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jetsync.errors import ConfigError
from jetsync.jetstream.config.consumer import ConsumerConfig, PriorityPolicy

if TYPE_CHECKING:
    from jetsync.client import Msg
    from jetsync.jetstream.pull.source import PulledConsumer

__all__ = ["Pin", "check_group", "longest_pull", "new_pin"]

_HEADER = "Nats-Pin-Id"
# Option of a pull -> the policy that it needs.
_NEEDS = {
    "min_pending": PriorityPolicy.OVERFLOW,
    "min_ack_pending": PriorityPolicy.OVERFLOW,
    "priority": PriorityPolicy.PRIORITIZED,
}


def check_group(
    config: ConsumerConfig | None,
    *,
    group: str | None,
    min_pending: int | None,
    min_ack_pending: int | None,
    priority: int | None,
) -> dict[str, object]:
    """Return the priority part of a pull, checked before anything is sent.

    ``config`` is what the server last said about the consumer. Raises ConfigError. Never blocks.
    """
    options = {
        "min_pending": min_pending,
        "min_ack_pending": min_ack_pending,
        "priority": priority,
    }
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ConfigError(f"{name} must be a whole number, 0 or more, got {value!r}")
    if priority is not None and priority > 9:
        raise ConfigError("priority must be 0 to 9")
    if group is None and given:
        raise ConfigError(f"{' and '.join(given)} need a group")
    if config is not None:
        _check_against(config, group, given)
    return {**given} if group is None else {"group": group, **given}


def _check_against(config: ConsumerConfig, group: str | None, given: dict[str, int]) -> None:
    groups, policy = list(config.priority_groups), config.priority_policy
    refresh = "(Consumer.info() asks again, if that changed)"
    if policy == PriorityPolicy.NONE or not groups:
        if group is not None:
            raise ConfigError(
                f"group {group!r} was given, but the consumer has no priority groups {refresh}"
            )
        return
    if group is None:
        raise ConfigError(
            f"the consumer has priority groups: give group=, one of {', '.join(groups)} {refresh}"
        )
    if group not in groups:
        raise ConfigError(
            f"the consumer has no priority group {group!r}, only {', '.join(groups)} {refresh}"
        )
    for name in given:
        if policy != _NEEDS[name]:
            raise ConfigError(
                f"{name} needs a consumer with the policy {str(_NEEDS[name].value)!r}; "
                f"this one has {str(getattr(policy, 'value', policy))!r} {refresh}"
            )


def _pins(consumer: PulledConsumer) -> bool:
    config = consumer.cached_info.config
    return config is not None and config.priority_policy == PriorityPolicy.PINNED_CLIENT


def longest_pull(consumer: PulledConsumer, expires: float) -> float:
    """How long one pull may last: only a new pull keeps a pin, so a pinned client asks again at
    half of the group's ``priority_timeout``."""
    config = consumer.cached_info.config
    if not _pins(consumer) or config is None or not config.priority_timeout:
        return expires
    return min(expires, float(config.priority_timeout) / 2)


class Pin:
    """The pinned id of one client in a priority group. For one thread at a time.

    ``id`` is what the server gave with the first message; it goes with every further pull. The
    functions are called with it, in the thread that takes messages, when it came and was lost.
    """

    def __init__(
        self,
        group: str,
        known: dict[str, str],
        on_pinned: Callable[[str], Any] | None = None,
        on_unpinned: Callable[[str], Any] | None = None,
    ) -> None:
        self._group = group
        self._known = known
        self._on_pinned = on_pinned
        self._on_unpinned = on_unpinned
        self.id: str | None = None

    def learn(self, msg: Msg) -> None:
        """Take the id from a message, if it is a new one."""
        # The server adds it as the last header; a publisher could have written one before.
        values = msg.headers.get_all(_HEADER) if msg.raw_headers else []
        if not values or not values[-1] or values[-1] == self.id:
            return
        before, self.id = self.id, values[-1]
        self._known[self._group] = self.id
        if before is not None and self._on_unpinned is not None:
            self._on_unpinned(before)
        if self._on_pinned is not None:
            self._on_pinned(self.id)

    def lose(self, sent: str | None) -> None:
        """A pull that carried this id was refused: another client is pinned, or none."""
        if sent is None or sent != self.id:
            return  # an older pull; the id was replaced meanwhile
        self.id = None
        self._known.pop(self._group, None)
        if self._on_unpinned is not None:
            self._on_unpinned(sent)


def new_pin(
    consumer: PulledConsumer,
    group: object,
    on_pinned: Callable[[str], Any] | None = None,
    on_unpinned: Callable[[str], Any] | None = None,
) -> Pin | None:
    """The pin of one stream of messages in a group; None when the group does not pin clients."""
    if not isinstance(group, str) or not _pins(consumer):
        return None
    return Pin(group, consumer.pins, on_pinned, on_unpinned)
