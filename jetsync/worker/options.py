"""The source and the options of a worker, and the attribute that ``task`` sets."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from jetsync._deadline import Seconds, to_seconds
from jetsync._numbers import check_whole
from jetsync._signatures import check_options
from jetsync.errors import ConfigError
from jetsync.jetstream.settle import Backoff, Settler
from jetsync.jetstream.settle.dead_letter import check_template

if TYPE_CHECKING:
    from jetsync import ConnectOptions, ConsumerConfig, JetStreamMsg
    from jetsync.jetstream.settle.rules import RetryRule
    from jetsync.worker.report import Outcome

__all__ = ["WorkSource", "WorkerOptions", "check_handler", "key_function", "task", "task_of"]

F = TypeVar("F", bound=Callable[..., Any])

_TASK = "__jetsync_task__"
_TOKEN = re.compile(r"subject:([1-9]\d*)")


@dataclass(frozen=True)
class WorkSource:
    """Where a worker takes its messages: it connects itself, so this can be pickled.

    With ``create`` the consumer is created, or updated to it, when the worker starts. ``group`` is
    for a consumer with priority groups.
    """

    stream: str
    consumer: str
    _: dataclasses.KW_ONLY
    options: ConnectOptions
    create: ConsumerConfig | None = None
    group: str | None = None


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """The options of ``run`` and ``Worker``, checked. See the guide for what each one does."""

    threads: int = 8
    processes: int = 1
    start_method: Literal["spawn", "forkserver"] = "spawn"
    key: str | Callable[[JetStreamMsg], Hashable] | None = None
    retry: RetryRule = dataclasses.field(default_factory=Backoff)
    dead_letter: str | None = None
    codec: Any = None
    ack_sync: bool = False
    prefetch: int | None = None
    crash_tries: int = 10
    max_runtime: Seconds | None = None
    drain_timeout: Seconds = 30.0
    restart_backoff: Backoff = dataclasses.field(
        default_factory=lambda: Backoff(1.0, limit=30.0, tries=None)
    )
    setup: Callable[[], Any] | None = None
    teardown: Callable[[], Any] | None = None
    on_outcome: Callable[[Outcome], Any] | None = None
    http: str | None = None

    def __post_init__(self) -> None:
        for name in ("threads", "processes", "crash_tries", "prefetch"):
            value = getattr(self, name)
            if name == "prefetch" and value is None:
                continue
            check_whole(name, value)
        if self.start_method not in ("spawn", "forkserver"):
            raise ConfigError(
                "start_method must be 'spawn' or 'forkserver': a forked child cannot use the "
                "connection of its parent"
            )
        if self.most_held < self.threads:
            raise ConfigError("prefetch must not be below threads: each thread holds a message")
        key_function(self.key)
        if self.key is not None and self.processes > 1:
            raise ConfigError(
                "key keeps the order inside of one process: give processes=1, or use a partitioned "
                "group with one process for each member"
            )
        if self.dead_letter is not None:
            check_template(self.dead_letter)
        most = Settler(self.retry).most_tries
        if most is not None and self.crash_tries <= most:
            raise ConfigError(
                f"crash_tries ({self.crash_tries}) must be above the tries of retry ({most}): "
                "messages that a drain hands back are counted by the server too"
            )
        if self.max_runtime is not None and to_seconds(self.max_runtime, "max_runtime") == 0:
            raise ConfigError("max_runtime must be above 0 seconds, or None for no limit")
        to_seconds(self.drain_timeout, "drain_timeout")
        if not isinstance(self.restart_backoff, Backoff):
            raise ConfigError("restart_backoff must be a Backoff")
        for name in ("setup", "teardown", "on_outcome"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ConfigError(f"{name} must be a function")
        if self.codec is not None:
            raise ConfigError("codec is not supported by this version: decode in the handler")
        if self.http is not None:
            http_address(self.http)

    @classmethod
    def of(cls, call: str, given: dict[str, Any]) -> WorkerOptions:
        """The options that were given to a call. Raises ConfigError, and TypeError for a name that
        is none."""
        check_options(call, given, cls)
        return cls(**given)

    @property
    def most_held(self) -> int:
        """How many messages are held at a time, running ones included."""
        return 2 * self.threads if self.prefetch is None else self.prefetch


def http_address(text: str) -> tuple[str, int]:
    """Return host and port of ``http=``. Raises ConfigError."""
    host, colon, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"http must be 'host:port', not {text!r}")
    return host.strip("[]") or "127.0.0.1", int(port)


def check_handler(handler: object) -> None:
    """Raise ConfigError for a handler that is not callable, or is a coroutine function."""
    if not callable(handler):
        raise ConfigError(f"the handler must be a function, not {type(handler).__name__}")
    call = getattr(handler, "__call__", None)  # noqa: B004 - an object may have one of its own
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call):
        raise ConfigError(
            "the handler must be an ordinary function: there is no event loop here, and it runs on "
            "a thread where it may block"
        )


def key_function(
    key: str | Callable[[JetStreamMsg], Hashable] | None,
) -> Callable[[JetStreamMsg], Hashable] | None:
    """Return what computes the key of a message; None: no order. Raises ConfigError."""
    if key is None or callable(key):
        return key
    if key == "subject":
        return lambda msg: msg.subject
    if isinstance(key, str) and (token := _TOKEN.fullmatch(key)):
        index = int(token[1]) - 1
        return lambda msg: ".".join(msg.subject.split(".")[index : index + 1])
    if isinstance(key, str) and key.startswith("header:") and len(key) > len("header:"):
        name = key.removeprefix("header:")
        return lambda msg: msg.headers.get(name) if msg.headers else None
    raise ConfigError(
        f"key must be 'subject', 'subject:2' (a token, from 1), 'header:Name' or a function, "
        f"not {key!r}"
    )


def task(*, stream: str, consumer: str, **options: Any) -> Callable[[F], F]:
    """Declare a function as the handler of a consumer, for ``jetsync worker module:function``.

    ``options`` are those of :func:`run`; the command's flags override them. The function itself
    stays as it is. Raises ConfigError.
    """
    WorkerOptions.of("task", options)

    def decorate(function: F) -> F:
        check_handler(function)
        setattr(function, _TASK, (stream, consumer, options))
        return function

    return decorate


def task_of(function: object) -> tuple[str, str, dict[str, Any]] | None:
    """Return stream, consumer and options that ``task`` has given a function; None: it has not."""
    return cast("tuple[str, str, dict[str, Any]] | None", getattr(function, _TASK, None))
