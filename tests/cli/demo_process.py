"""Run ``jetsync`` as a person does, in a process of its own, and know what it leaves behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

TOKEN = "JETSYNC_TEST_RUN"
PATIENCE = 400.0


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """The last line on stderr."""
        return self.err.rstrip("\n").rpartition("\n")[2]


class Running:
    """A command in a process group of its own. It writes to files, so it never waits for us."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self._token = f"{TOKEN}={uuid.uuid4().hex}"
        folder.mkdir(parents=True, exist_ok=True)
        self._out, self._err = folder / "stdout.txt", folder / "stderr.txt"
        name, _, value = self._token.partition("=")
        with self._out.open("w") as out, self._err.open("w") as err:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, **environment, name: value},
            )

    def wait_for(self, text: str) -> None:
        """Wait until this text appears on stderr. The command must not end before."""
        self._wait_for(text, self._err)

    def wait_for_line(self) -> str:
        """Wait for a line on stdout and return it. The command must not end before."""
        self._wait_for("\n", self._out)
        return self._out.read_text().partition("\n")[0]

    def _wait_for(self, text: str, file: Path) -> None:
        deadline = time.monotonic() + PATIENCE
        while text not in file.read_text():
            assert self._process.poll() is None, f"ended early: {self._err.read_text()}"
            assert time.monotonic() < deadline, f"no {text!r} in: {self._err.read_text()}"
            time.sleep(0.02)  # between two looks

    def press_ctrl_c(self) -> None:
        """Send what a terminal sends: SIGINT to every process of the foreground group."""
        os.killpg(self._process.pid, signal.SIGINT)

    def terminate(self) -> None:
        """Send SIGTERM to the command alone, as a service manager does."""
        self._process.terminate()

    def kill_children(self, program: str) -> None:
        """Kill the command's descendants that run this program."""
        for pid in self._pids():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if program in Path(f"/proc/{pid}/cmdline").read_text().partition("\0")[0]:
                    os.kill(pid, signal.SIGKILL)

    def crash(self) -> None:
        """Kill the command alone, with no chance to tidy up."""
        self._process.kill()
        self._process.wait()

    def wait_until_gone(self) -> None:
        """Wait until nothing that the command started runs any more."""
        deadline = time.monotonic() + PATIENCE
        while left := self.survivors():
            assert time.monotonic() < deadline, left
            time.sleep(0.05)  # between two looks

    def end(self) -> Ended:
        """Wait for the command's end and return how it ended."""
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running: {self._err.read_text()}") from None
        finally:
            if self._process.returncode is None:
                self.end_all()
        return Ended(code, self._out.read_text(), self._err.read_text())

    def end_all(self) -> None:
        """Kill whatever the command started, for tests that fail."""
        for pid in self._pids():
            with contextlib.suppress(ProcessLookupError):  # it ended by itself meanwhile
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def survivors(self) -> list[str]:
        """Return the command lines of the command's descendants that still run.

        They are known by a variable of their environment, which every descendant inherits.
        """
        lines = []
        for pid in self._pids():
            try:
                lines.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "))
            except OSError:  # it has ended since
                continue
        return lines

    def _pids(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and self._token.encode() in (
                    entry / "environ"
                ).read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:  # it has ended since, or belongs to another user
                continue
        return found


def jetsync(folder: Path, *arguments: str, **environment: str) -> Running:
    """Start ``jetsync ARGUMENTS``."""
    return Running(folder, "-m", "jetsync", *arguments, **environment)
