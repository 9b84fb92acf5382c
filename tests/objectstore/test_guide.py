"""The examples of the guide about object stores run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import jetsync

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "objectstore.md"


def test_the_examples_run(fresh_server, tmp_path, capsys):
    first, put, write, get, seek, watch = re.findall(
        r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL
    )
    model = tmp_path / "model.bin"
    model.write_bytes(b"weights")

    def run(code, names):
        exec(compile(code, f"objectstore.md: {code[:40]!r}", "exec"), names)
        return capsys.readouterr().out

    url = fresh_server.url
    assert run(first.replace("connect()", f"connect({url!r})"), {}) == "b'name,total\\n'\n"
    with jetsync.connect(url) as nc:
        store = nc.jetstream().object_store("reports")
        names = {"jetsync": jetsync, "store": store, "lines": lambda: [b"one\n", b"two\n"]}
        run(put.replace("/data/model.bin", str(model)), names)
        assert store.get_bytes("model.bin") == b"weights"
        assert store.get_bytes("log") == b"one\ntwo\n"
        run(write, names)
        assert store.get_bytes("table.csv") == b"name,total\n"
        assert store.get_bytes("big.bak") == bytes(3_000_000)
        assert run(seek, names) == "b'1' b'\\x00\\x00'\n"
        for name in ("table.csv", "big", "big.bak", "a.zip"):
            store.delete(name)
        assert run(get, names).startswith("b'name,total\\n' 11\n")
        # The last loop waits for ever: here it sees one change.
        one = 'store.delete("log")\n    for info in [watcher.next(timeout=20)]:'
        said = run(watch.replace("for info in watcher:", one), names)
        assert said.splitlines() == [
            "there is 2026/01.csv",
            "there is model.bin",
            "there is log",
            *(f"there is {name}" for name in ("table.csv", "big", "big.bak", "a.zip")),
            "log deleted",
        ]
