"""Run a command at a terminal of its own, and know what it drew and how it ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.cli.run_command import clean_environment

_PATIENCE = 60.0
_ESCAPE = re.compile(
    rb"\x1b(\[[0-9;?<>=]*[A-Za-z]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][0-9A-B]|[=>78M])"
)


@dataclass(frozen=True)
class Drawn:
    """How a command at a terminal ended."""

    code: int
    raw: bytes

    @property
    def text(self) -> str:
        """What was drawn, without what steers the terminal."""
        return plain(self.raw)


def plain(raw: bytes) -> str:
    """Return the text among the bytes for a terminal."""
    return _ESCAPE.sub(b"", raw).replace(b"\r\n", b"\n").decode()


class Terminal:
    """A terminal with a command at it."""

    def __init__(self, arguments: Sequence[str], columns: int, environment: dict[str, str]) -> None:
        self._leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        environment = {"TERM": "xterm-256color", "LANG": "C.UTF-8", **environment}
        with clean_environment(environment):
            unset = {"NO_COLOR", "COLUMNS", "LINES"} - set(environment)
            known = {name: value for name, value in os.environ.items() if name not in unset}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jetsync", *arguments],
                stdin=follower,
                stdout=follower,
                stderr=follower,
                start_new_session=True,
                env=known,  # not what readline has put into the environment of this process
            )
        os.close(follower)
        self._raw = b""

    def wait_for(self, ready: Callable[[str], bool]) -> str:
        """Read until what was drawn fulfils a condition, and return it."""
        deadline = time.monotonic() + _PATIENCE
        while not ready(plain(self._raw)):
            if not self._read(deadline):
                raise AssertionError(f"not drawn:\n{plain(self._raw)}")
        return plain(self._raw)

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._leader, keys)

    def send(self, signum: signal.Signals) -> None:
        """Send the command a signal."""
        self._process.send_signal(signum)

    def end(self) -> Drawn:
        """Wait until the command has ended."""
        deadline = time.monotonic() + _PATIENCE
        while self._read(deadline):
            pass
        return Drawn(self._process.wait(_PATIENCE), self._raw)

    def close(self) -> None:
        """End the command if it runs still."""
        self._process.kill()
        self._process.wait(_PATIENCE)
        os.close(self._leader)

    def _read(self, deadline: float) -> bool:
        """Read some; False at the end of the command, or of patience."""
        ready, _, _ = select.select([self._leader], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            some = os.read(self._leader, 65_536)
        except OSError:  # the command has ended
            return False
        self._raw += some
        return bool(some)


@contextlib.contextmanager
def terminal(*arguments: str, columns: int = 120, **environment: str) -> Iterator[Terminal]:
    """Run ``jetsync ARGUMENTS`` at a terminal."""
    opened = Terminal(arguments, columns, environment)
    try:
        yield opened
    finally:
        opened.close()


def drawn(*arguments: str, columns: int = 120, **environment: str) -> Drawn:
    """Run ``jetsync ARGUMENTS`` at a terminal until it ends."""
    with terminal(*arguments, columns=columns, **environment) as opened:
        return opened.end()
