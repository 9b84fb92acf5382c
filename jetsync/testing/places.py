"""Where a test works: an account of its own on a server that many tests share."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from jetsync._threads import library_threads
from jetsync.testing.waiting import wait_until

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable

__all__ = ["ACCOUNTS", "Place", "accounts_config", "find_leaks", "remove_streams"]

ACCOUNTS = 64

_numbers = itertools.count()
_GRACE = 2.0


def accounts_config() -> str:
    """Return the part of a server's configuration with the accounts of tests."""
    accounts = "\n".join(
        f"  T{n}: {{ jetstream: enabled, users: [{{ user: t{n}, password: t{n} }}] }}"
        for n in range(ACCOUNTS)
    )
    return f"accounts {{\n{accounts}\n}}\nno_auth_user: t0\n"


class Place:
    """The URL of one test, the threads that ran before it, and the streams to remove after it."""

    def __init__(self, url: str, *, has_accounts: bool) -> None:
        if has_accounts:
            number = next(_numbers) % ACCOUNTS
            parts = urlsplit(url)
            url = f"{parts.scheme}://t{number}:t{number}@{parts.hostname}:{parts.port}"
        self.url = url
        self.threads: set[threading.Thread] = library_threads()
        self.has_accounts = has_accounts
        self.created: set[str] = set()
        """The streams that ``nats_js`` created, where the test has no account of its own."""


def remove_streams(url: str, names: Iterable[str] | None = None) -> list[str]:
    """Delete streams at a URL with all that is in them; return those that stayed. Blocks.

    ``names`` None: all of the account, which belongs to the test then.
    """
    from jetsync import Error, StreamNotFoundError, connect

    stayed = []
    with connect(url) as nc:
        js = nc.jetstream()
        for name in list(js.stream_names() if names is None else names):
            try:
                js.delete_stream(name)
            except StreamNotFoundError:  # another client was faster
                continue
            except Error as error:
                stayed.append(f"stream {name} ({error})")
    return stayed


def find_leaks(threads: set[threading.Thread]) -> list[str]:
    """Return the threads that still run beside ``threads`` after a moment of grace."""
    try:
        wait_until(lambda: not library_threads() - threads, _GRACE)
    except AssertionError:
        return sorted(thread.name for thread in library_threads() - threads)
    return []
