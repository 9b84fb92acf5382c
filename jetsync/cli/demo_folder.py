"""The demo's output folder: one run at a time, no files of other programs touched, enough space."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path
from types import TracebackType
from typing import TextIO

from jetsync.cli.failure import CommandError, UsageError

__all__ = ["OutputFolder"]

_OWNER_FILE = ".jetsync-demo"
_BYTES_PER_ROW = 1500  # stream, parquet, checkpoints and Spark's own files, generously
_BASE_BYTES = 100 * 2**20


class OutputFolder:
    """A folder that belongs to the demo, emptied at the start of a run and locked during it.

    A marker file says that the demo made the folder. Without it a folder that holds anything is
    left alone. The lock goes with the process, so a run that was killed leaves nothing to undo.
    """

    def __init__(self, path: Path, *, keep_work: bool) -> None:
        self.path: Path = path.absolute()
        self.work: Path = self.path / "work"
        self.logs: Path = self.path / "logs"
        self.parquet: Path = self.path / "flights.parquet"
        self._keep_work = keep_work
        self._owner: TextIO | None = None

    def __enter__(self) -> OutputFolder:
        self._owner = self._claim()
        try:
            for entry in self.path.iterdir():
                if entry.name != _OWNER_FILE:
                    _remove(entry)
            self.work.mkdir()
            self.logs.mkdir()
        except OSError as error:
            self._owner.close()
            raise CommandError(f"cannot empty {self.path}: {error}.") from error
        return self

    def _claim(self) -> TextIO:
        """Return the marker file, locked."""
        owner = self.path / _OWNER_FILE
        file: TextIO | None = None
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not owner.exists() and any(self.path.iterdir()):
                raise UsageError(
                    f"{self.path} holds files that 'jetsync demo' did not make: "
                    "name an empty or new folder with --out."
                )
            file = owner.open("a")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            claimed, file = file, None
            return claimed
        except BlockingIOError:
            raise CommandError(
                f"another 'jetsync demo' is using {self.path}: wait for it, or name another "
                "folder with --out."
            ) from None
        except OSError as error:
            raise CommandError(f"cannot write to {self.path}: {error.strerror}.") from error
        finally:
            if file is not None:
                file.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._keep_work:
            shutil.rmtree(self.work, ignore_errors=True)
        if self._owner is not None:
            self._owner.close()

    def require_space(self, rows: int) -> None:
        """Raise ``CommandError`` when the disk has clearly too little room for so many rows."""
        needed = _BASE_BYTES + rows * _BYTES_PER_ROW
        free = shutil.disk_usage(self.path).free
        if free < needed:
            raise CommandError(
                f"{self.path} has {free // 2**20:,} MB free and the demo needs about "
                f"{needed // 2**20:,} MB: free some, name another folder with --out, "
                "or send fewer --rows."
            )


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
