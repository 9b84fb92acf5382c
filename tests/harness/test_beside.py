"""Tests that run beside each other run once each, and each is told of, also when it dies."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from xml.etree import ElementTree

FILES = {
    "test_quick.py": """
        import pytest

        @pytest.mark.parametrize("number", range(20))
        def test_passes(number, note):
            note(f"quick {number}")

        def test_fails(note):
            note("fails")
            print("what it said")
            assert 1 == 2

        @pytest.mark.skip(reason="not today")
        def test_is_skipped():
            pass
        """,
    "test_dies.py": """
        import os

        def test_before(note):
            note("before")

        def test_dies(note):
            note("dies")
            os._exit(3)

        def test_behind(note):
            note("behind")
        """,
    "test_shared.py": """
        def test_one(shared, note):
            note(f"one {shared}")

        def test_two(shared, tmp_path, note):
            note(f"two {shared}")
        """,
    "test_other.py": """
        def test_interrupts_itself(note):
            import os, pytest, signal

            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
                signal.pause()
            note("interrupted")
        """,
    "conftest.py": """
        import os
        from pathlib import Path
        import pytest

        NOTES = Path(__file__).with_name("notes")

        @pytest.fixture
        def note(request):
            def write(text):
                with NOTES.open("a") as file:
                    file.write(text + "\\n")
            return write

        @pytest.fixture(scope="session")
        def shared():
            yield os.getpid()
            with NOTES.open("a") as file:
                file.write(f"end of {os.getpid()}\\n")
        """,
}


def run(folder, *options):
    command = [sys.executable, "-m", "pytest", "-p", "tests.harness.beside", "--beside", "3"]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", "--rootdir=.", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_file_that_cannot_be_read_stops_everything(tmp_path):
    (tmp_path / "test_broken.py").write_text("import nothing_of_this_name")
    (tmp_path / "test_good.py").write_text("def test_good(): pass")
    done = run(tmp_path)
    assert done.returncode == 2
    assert "ERROR test_broken.py" in done.stdout
    assert "passed" not in done.stdout


def test_each_test_runs_once_and_is_told_of(tmp_path):
    for name, text in FILES.items():
        lines = text.replace("\n        ", "\n")
        (tmp_path / name).write_text(lines)
    done = run(tmp_path, f"--junitxml={tmp_path}/report.xml")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 failed, 25 passed, 1 skipped" in done.stdout
    assert "what it said" in done.stdout
    assert "the process that ran this test died" in done.stdout
    notes = (tmp_path / "notes").read_text().splitlines()
    pids = {note.split()[-1] for note in notes if note.startswith(("one", "two"))}
    assert len(pids) == 1, "a file stays in one process"
    expected = [f"quick {n}" for n in range(20)]
    expected += ["fails", "before", "dies", "behind", "interrupted"]
    expected += [f"{word} {pid}" for word in ("one", "two", "end of") for pid in pids]
    assert Counter(notes) == Counter(expected)
    cases = [
        case.get("name") for case in ElementTree.parse(tmp_path / "report.xml").iter("testcase")
    ]
    assert len(cases) == len(set(cases)) == 28
