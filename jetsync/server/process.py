"""One run of nats-server: the process, its signals and its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from jetsync._deadline import Deadline
from jetsync._locks import lock

__all__ = ["Process"]

_POLL = 0.005
_SLOWEST_POLL = 0.05
_KILLED_WITHIN = 10.0

# The guard is a shell that reads from a pipe whose other end only this process holds. A line on it
# is an orderly stop. The end of the pipe without a line means that this process died, even by
# SIGKILL: the guard then kills the server and removes its scratch folder. The kernel's parent-death
# signal (PR_SET_PDEATHSIG) does not help: it fires when the *thread* that started the child ends.
_GUARD = """
read -r _ && exit
kill -KILL "$1"
for _ in 1 2 3 4 5; do rm -rf -- "$2" && break; done
"""


class Process:
    """A running nats-server. It dies when this process dies.

    It has a session of its own, so that Ctrl-C in the terminal does not reach it.
    Safe from any thread of the process that made it.
    """

    def __init__(self, command: Sequence[str], *, log: Path, scratch: Path) -> None:
        self._guard_lock = lock("server/process.py _guard_lock")
        with log.open("ab") as file:
            self._server = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        try:
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "jetsync-guard", str(self.pid), str(scratch)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                bufsize=0,
                cwd="/",
            )
        except BaseException:
            self._server.kill()
            self._server.wait()
            raise

    @property
    def pid(self) -> int:
        """The process id of nats-server."""
        return self._server.pid

    def exit_code(self) -> int | None:
        """Return how it ended (minus the signal number if by a signal), None while it runs."""
        code = self._server.poll()
        if code is not None:
            self._dismiss_guard()
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal. Nothing happens if the process has ended."""
        self._server.send_signal(number)

    def pause(self, deadline: Deadline) -> bool:
        """Send SIGSTOP and wait until every thread of it stands still; return whether."""
        self.signal(signal.SIGSTOP)
        if not hasattr(os, "waitid"):  # macOS before Python 3.13: nothing to wait with
            return True
        wanted = os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT
        while os.waitid(os.P_PID, self.pid, wanted) is None:
            if deadline.expired:
                return False
            time.sleep(_POLL)
        return True

    def wait(self, deadline: Deadline) -> bool:
        """Wait for its end; return whether it has ended."""
        delay = _POLL
        while self.exit_code() is None:
            if deadline.expired:
                return False
            time.sleep(deadline.within(delay))
            delay = min(2 * delay, _SLOWEST_POLL)
        return True

    def terminate(self, deadline: Deadline) -> None:
        """Ask it to shut down; kill it when it has not within the deadline."""
        try:
            self.signal(signal.SIGTERM)
            self.signal(signal.SIGCONT)  # a paused process does not see the other one
            self.wait(deadline)
        finally:
            self.kill()

    def kill(self) -> None:
        """End it with SIGKILL and take its exit code. Does nothing once it has ended."""
        self._server.kill()
        self.wait(Deadline(_KILLED_WITHIN))

    def _dismiss_guard(self) -> None:
        with self._guard_lock:
            if self._guard.returncode is not None:
                return
            door = self._guard.stdin
            if door and not door.closed:
                with contextlib.suppress(BrokenPipeError):
                    door.write(b"\n")
                door.close()
            try:
                self._guard.wait(_KILLED_WITHIN)
            except subprocess.TimeoutExpired:
                self._guard.kill()
                self._guard.wait()
