"""``jetsync version``: the versions that a report of a problem needs."""

from __future__ import annotations

from jetsync._version import __version__
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Fields
from jetsync.cli.registry import Command

__all__ = ["COMMANDS"]


def run(invocation: Invocation) -> None:
    """Carry out the command."""
    import platform

    from jetsync.cli.extras import installed

    data = {
        "jetsync": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "nats_server": _server_version(),
        "packages": (packages := installed()),
    }
    invocation.out.show(
        data,
        lambda: Fields(
            f"jetsync {__version__}",
            {
                "": {
                    "Python": f"{data['python']} on {data['platform']}",
                    "nats-server": data["nats_server"] or "none found",
                    "Packages": [f"{name} {found}" for name, found in packages.items()],
                }
            },
        ),
    )


def _server_version() -> str | None:
    import subprocess

    from jetsync.errors import ServerUnavailableError
    from jetsync.server import find_binary

    try:
        done = subprocess.run(
            [str(find_binary()), "--version"], capture_output=True, text=True, timeout=5, check=True
        )
    except (ServerUnavailableError, OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip().rpartition("v")[2]


COMMANDS = (
    Command(
        "version",
        "show the versions of jetsync, Python and nats-server",
        run,
        example="jetsync version --json",
        connects=False,
    ),
)
