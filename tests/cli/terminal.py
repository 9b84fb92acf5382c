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
_STREAMS = ("stdin", "stdout", "stderr")
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
    return _text(_ESCAPE.sub(b"", raw).replace(b"\r\n", b"\n"))


def _text(raw: bytes) -> str:
    return raw.decode(errors="ignore")  # what was read may end within a character


def _lines(raw: bytes) -> list[str]:
    """Return what stands on the screen after the bytes: of what steers a terminal, those that draw
    in place move the cursor only."""
    shown: dict[int, dict[int, str]] = {}
    row = column = 0
    for piece in re.finditer(rb"%b|[^\x1b]+" % _ESCAPE.pattern, raw):
        moved = re.fullmatch(rb"\x1b\[(\d+);(\d+)H", piece[0])
        if moved is not None:
            row, column = int(moved[1]), int(moved[2])
        elif not piece[0].startswith(b"\x1b"):
            for char in _text(piece[0]):
                if char == "\n":
                    row += 1
                elif char == "\r":
                    column = 1
                else:
                    shown.setdefault(row, {})[column] = char
                    column += 1
    return [
        "".join(shown[row].get(at, " ") for at in range(1, max(shown[row]) + 1))
        for row in sorted(shown)
    ]


class Terminal:
    """A terminal with a command at it."""

    def __init__(
        self,
        arguments: Sequence[str],
        columns: int,
        elsewhere: str,
        environment: dict[str, str],
    ) -> None:
        self._leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        environment = {"TERM": "xterm-256color", "LANG": "C.UTF-8", **environment}
        with clean_environment(environment):
            unset = {"NO_COLOR", "COLUMNS", "LINES"} - set(environment)
            known = {name: value for name, value in os.environ.items() if name not in unset}
            places = {name: follower for name in _STREAMS}
            if elsewhere:
                places[elsewhere] = subprocess.DEVNULL
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jetsync", *arguments],
                stdin=places["stdin"],
                stdout=places["stdout"],
                stderr=places["stderr"],
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

    def wait_for_screen(self, ready: Callable[[list[str]], bool]) -> list[str]:
        """Read until the lines that stand on the screen fulfil a condition, and return them."""
        deadline = time.monotonic() + _PATIENCE
        while not ready(_lines(self._raw)):
            if not self._read(deadline):
                raise AssertionError("\n".join(["not drawn:", *_lines(self._raw)]))
        return _lines(self._raw)

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

    def vanish(self) -> None:
        """Close the terminal. It does not lead the session of the command, which gets no SIGHUP."""
        if self._leader >= 0:
            os.close(self._leader)
        self._leader = -1

    def unread(self) -> int:
        """Return the number of bytes that were drawn and not read."""
        found = fcntl.ioctl(self._leader, termios.FIONREAD, b"\0" * 4)
        return int(struct.unpack("i", found)[0])

    def code(self) -> int:
        """Wait until the command has ended, without reading what it draws."""
        return self._process.wait(_PATIENCE)

    def close(self) -> None:
        """End the command if it runs still."""
        self._process.kill()
        self._process.wait(_PATIENCE)
        self.vanish()

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
def terminal(
    *arguments: str, columns: int = 120, elsewhere: str = "", **environment: str
) -> Iterator[Terminal]:
    """Run ``jetsync ARGUMENTS`` at a terminal; one of its streams may be elsewhere."""
    opened = Terminal(arguments, columns, elsewhere, environment)
    try:
        yield opened
    finally:
        opened.close()


def drawn(*arguments: str, columns: int = 120, **environment: str) -> Drawn:
    """Run ``jetsync ARGUMENTS`` at a terminal until it ends."""
    with terminal(*arguments, columns=columns, **environment) as opened:
        return opened.end()
