"""Starting is cheap: an import brings only the modules that every program needs.

A module that is new here costs every command, every Spark task and every worker its time.
"""

from __future__ import annotations

import ast
import subprocess
import sys

_NOT_AT_START = {
    "bz2",
    "decimal",
    "difflib",
    "hashlib",
    "html",
    "lzma",
    "secrets",
    "shutil",
    "ssl",
    "subprocess",
    "tempfile",
}


def _loaded(code: str) -> set[str]:
    code = (
        f"import sys; before = set(sys.modules); {code}; print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ast.literal_eval(done.stdout.splitlines()[-1]))


def test_jetstream_and_a_command_that_connects_import_what_they_use() -> None:
    loaded = _loaded("import jetsync.jetstream, jetsync.cli.main, jetsync.cli.stream")
    ours = {name for name in loaded if name.startswith("jetsync")}
    assert not _NOT_AT_START & loaded
    assert not {"jetsync.kv", "jetsync.objectstore", "jetsync.worker", "jetsync.observe"} & ours


def test_the_package_itself_brings_headers_and_errors_only() -> None:
    """A program that catches errors, or makes messages of its own, needs no connection."""
    ours = {name for name in _loaded("import jetsync") if name.startswith("jetsync.")}
    rooms = {name.split(".")[1] for name in ours}
    assert not rooms & {"client", "jetstream", "kv", "objectstore", "protocol", "server", "worker"}
