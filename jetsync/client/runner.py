"""The only place that starts threads."""

from __future__ import annotations

import inspect
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from jetsync.client.latch import Latch
from jetsync.client.native import original
from jetsync.errors import ConfigError

__all__ = ["check_callback", "run_callbacks", "start_thread"]

logger = logging.getLogger("jetsync")


class Thread(threading.Thread):
    """A daemon thread that takes no signals, so that Ctrl-C reaches the user's own thread."""

    def __init__(self, name: str, target: Callable[[], Any]) -> None:
        super().__init__(name=name, daemon=True)
        self._job = target
        self._over = Latch()
        self._native = _unpatched_start()
        self._runs_on = 0

    def start(self) -> None:
        if self._native is None:
            super().start()
        else:
            self._native(self._run_natively, ())

    def _run_natively(self) -> None:
        threading.current_thread().name = self.name
        self.run()

    def run(self) -> None:
        self._runs_on = threading.get_ident()
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._job()
        except Exception:
            logger.exception("thread %s ended by an unexpected error", self.name)
        finally:
            del self._job
            self._over.set()

    def is_alive(self) -> bool:
        return not self._over.is_set()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end; not for oneself.

        CPython takes a thread for dead once Ctrl-C interrupted its join(): an event is waited for.
        """
        if self._runs_on == threading.get_ident():
            return
        if self._over.wait(timeout) and self._native is None:
            super().join()


def _unpatched_start() -> Callable[..., object] | None:
    """How to start a native thread where gevent has put its own in their place, else None."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("_thread"):
        return None
    start: Callable[..., object] = original("_thread", "start_new_thread")
    return start


def start_thread(name: str, target: Callable[[], Any]) -> threading.Thread:
    """Start a daemon thread that takes no signals."""
    thread = Thread(f"jetsync-{name}", target)
    thread.start()
    return thread


def check_callback(callback: object) -> None:
    """Refuse what cannot be called with a message, or would do nothing when it is (ConfigError)."""
    if not callable(callback):
        raise ConfigError(f"callback must be a function, not {type(callback).__name__}")
    if inspect.iscoroutinefunction(callback):
        raise ConfigError(
            "callback must be an ordinary function: there is no event loop here, and it runs on a "
            "thread of its own, where it may block"
        )


def run_callbacks(
    items: Iterable[Any],
    callback: Callable[[Any], Any],
    on_error: Callable[[BaseException], Any],
) -> None:
    """Give every item to the callback: a callback is a ``for`` loop in a thread, nothing more.

    An exception of the callback goes to ``on_error``, the SystemExit of ``sys.exit()`` too, which
    ends a program in the main thread only. The next item is still delivered.
    """
    for item in items:
        try:
            callback(item)
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            on_error(error)
