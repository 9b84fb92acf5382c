"""The socket that the reader waits on, for the threads that want to end the waiting."""

from __future__ import annotations

import contextlib
import select
import socket

from jetsync._locks import rlock
from jetsync._native import original

__all__ = ["Sockets"]

_PATIENCE = 1.0


class Sockets:
    """Holds the socket that is being dialled or read. Only the reader holds and closes.

    Any thread may shut it down, in a signal handler too, but never its number after it was closed:
    by then that may be another file of the process.
    """

    def __init__(self) -> None:
        # Reentrant and never waited for by `cut`: a signal handler may interrupt another `cut`.
        self._guard = rlock("client/sockets.py _guard")
        self._sock: socket.socket | None = None

    def hold(self, sock: socket.socket) -> None:
        """Make this the socket that is shut down and closed."""
        self._sock = sock

    def cut(self) -> None:
        """Shut it down: the reader finds out. Does not wait, never raises."""
        if not self._guard.acquire(blocking=False):
            return  # another thread cuts or closes at this moment
        try:
            sock = self._sock
            if sock is not None:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
        finally:
            self._guard.release()

    def has_unread(self) -> bool:
        """Whether bytes wait in the socket that the reader thread has not received yet. Does not
        block. While the socket is being closed the answer may be about another file."""
        # Without the guard, since poll gives up the GIL: a thread that cuts meanwhile would find
        # the guard held, and not shut the socket down.
        sock = self._sock
        if sock is None:
            return False
        poll = original("select", "poll")()
        try:
            poll.register(sock.fileno(), select.POLLIN)
            return bool(poll.poll(0))
        except (OSError, ValueError):  # it was closed
            return False

    def close(self) -> None:
        """Close it. Waits for a thread that cuts, but not for a signal handler on top of one: then
        the socket is closed with its last reference."""
        if not self._guard.acquire(timeout=_PATIENCE):
            self._sock = None
            return
        try:
            sock, self._sock = self._sock, None
            if sock is not None:
                sock.close()
        finally:
            self._guard.release()

    def abandon(self) -> None:
        """Close it in a forked child, where the guard may be held by a thread that is not there."""
        sock = self._sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.close()
