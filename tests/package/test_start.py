"""Starting is cheap: what an import brings, counted, since the clock of a busy machine says little.

The figures are those of a start that was measured (docs/internals/architecture.md has the time);
a module that is new here costs every command, every Spark task and every worker its time.
"""

from __future__ import annotations

import ast
import subprocess
import sys

_MOST_OURS = 195
_MOST_OTHERS = 130
_NOT_AT_START = {
    "bz2",
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
    assert len(ours) <= _MOST_OURS, len(ours)
    assert len(loaded - ours) <= _MOST_OTHERS, len(loaded - ours)


def test_an_import_compiles_no_method_of_a_dataclass() -> None:
    """Those of the standard library are made by exec at import: half of the time of a start."""
    code = (
        "import dataclasses, sys; asked = []; plain = dataclasses.dataclass\n"
        "def counted(cls=None, /, **options):\n"
        "    asked.append(options.get('init', True) and sys._getframe(1).f_globals['__name__'])\n"
        "    return plain(cls, **options)\n"
        "dataclasses.dataclass = counted\n"
        "import jetsync.jetstream, jetsync.cli.main\n"
        "print([name or '' for name in asked])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    asked = ast.literal_eval(done.stdout)
    assert asked.count("") > 40
    # Two that change, and those of which the command line makes objects: words and flags.
    at_once = [name for name in asked if name]
    assert len(at_once) <= 5, at_once
