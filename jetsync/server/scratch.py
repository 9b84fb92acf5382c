"""The temporary folder of one server: its configuration, log, ports file and temporary store."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jetsync.errors import ServerUnavailableError

__all__ = ["Scratch", "make_writable", "writing"]

_LOG_TAIL = 256 * 1024


class Scratch:
    """A folder that exists from construction to ``remove()``. Raises ServerUnavailableError."""

    def __init__(self) -> None:
        with writing("the folder for temporary files (TMPDIR)"):
            self.path: Path = Path(tempfile.mkdtemp(prefix="jetsync-server-"))
        self.config: Path = self.path / "server.conf"
        self.log: Path = self.path / "log"
        self.ports: Path = self.path / "ports"
        self.store: Path = self.path / "store"

    def write_config(self, text: str) -> None:
        """Replace the configuration file."""
        with writing(f"the temporary folder {self.path}"):
            self.config.write_text(text, encoding="utf-8")

    def forget_ports(self) -> None:
        """Remove the ports file of an earlier run; a killed server leaves its own behind."""
        with writing(f"the temporary folder {self.path}"):
            shutil.rmtree(self.ports, ignore_errors=True)
            self.ports.mkdir(exist_ok=True)

    def has_ports(self) -> bool:
        """Whether the server has opened all its ports: only then it writes this file."""
        return any(self.ports.iterdir())

    def log_size(self) -> int:
        """Return how long the log is by now."""
        try:
            return self.log.stat().st_size
        except FileNotFoundError:
            return 0

    def read_log(self, start: int = 0) -> str:
        """Return the log from byte ``start`` on, but at most its end of 256 KiB."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(start, self.log_size() - _LOG_TAIL))
                return file.read(_LOG_TAIL).decode(errors="replace")
        except FileNotFoundError:
            return ""

    def remove(self) -> None:
        """Remove the folder and what is in it. Repeating it is harmless."""
        shutil.rmtree(self.path, ignore_errors=True)


def make_writable(folder: Path) -> None:
    """Make a folder, unless it exists, and try whether it takes a file."""
    with writing(f"the store directory {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0")


@contextmanager
def writing(place: str) -> Iterator[None]:
    """Turn a failure to write in the block into one sentence that names the place."""
    try:
        yield
    except OSError as error:
        raise ServerUnavailableError(
            f"{place} cannot be written ({error.strerror or error}): free some space there or "
            "choose another one."
        ) from error
