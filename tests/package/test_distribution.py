"""What is published can be installed: the source distribution is whole, and a wheel comes of it."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import jetsync

ROOT = Path(__file__).parents[2]
MADE_HERE = shutil.ignore_patterns(
    *(".*", "build", "dist", "*.egg-info", "*.so", "__pycache__", "work", "demo-out")
)


def run(*arguments: object, cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "JETSYNC"))}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


BUILT = ROOT / "build/dist"
IN_CI = os.environ.get("JETSYNC_CI", "") not in ("", "0")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> Path:
    """The one that the tests run against in continuous integration, or one made now."""
    if built := sorted(BUILT.glob("jetsync-*.tar.gz")):
        return built[-1]
    folder = tmp_path_factory.mktemp("sdist")
    shutil.copytree(ROOT, folder / "tree", ignore=MADE_HERE)
    build = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    run("-c", build, cwd=folder / "tree")
    (found,) = folder.glob("jetsync-*.tar.gz")
    return found


@pytest.fixture(scope="module")
def wheel(sdist) -> Path:
    if built := sorted(sdist.parent.glob("jetsync-*.whl")):
        return built[-1]
    run(
        *("-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-cache-dir"),
        *("--wheel-dir", sdist.parent, sdist),
        cwd=sdist.parent,
    )
    (found,) = sdist.parent.glob("jetsync-*.whl")
    return found


ARCHIVE = """
import Cython.Build, os
Cython.Build.cythonize = lambda extensions, **_: extensions  # nothing generated is in the archive
from setuptools import build_meta
os.umask({umask:#o})
build_meta.build_sdist({folder!r})
"""


def test_the_same_sources_make_the_same_source_distribution(tmp_path, monkeypatch):
    """Whenever they were checked out, and whatever permissions a user's umask gives to files."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    made = []
    for umask, seconds in ((0o022, 1_600_000_000), (0o077, 1_650_000_000)):
        tree = tmp_path / f"{umask:o}"
        before = os.umask(umask)
        try:
            for room in ("csrc", "jetsync"):
                shutil.copytree(ROOT / room, tree / room, ignore=MADE_HERE)
            for path in ROOT.glob("*.*"):
                if path.suffix in {".py", ".toml", ".md", ".in"}:
                    shutil.copyfile(path, tree / path.name)
        finally:
            os.umask(before)
        for path in tree.rglob("*"):
            os.utime(path, (seconds, seconds))
            path.chmod(path.stat().st_mode & ~umask)
        run("-c", ARCHIVE.format(umask=umask, folder=str(tree)), cwd=tree)
        (archive,) = tree.glob("jetsync-*.tar.gz")
        made.append(archive.read_bytes())
    assert made[0] == made[1]


METADATA = """
import Cython.Build, os
Cython.Build.cythonize = lambda extensions, **_: extensions
os.environ.update({addresses!r})
from setuptools import build_meta
build_meta.prepare_metadata_for_build_wheel({folder!r})
"""


@pytest.mark.parametrize(
    ("addresses", "told"),
    [
        ({}, []),
        (
            {"JETSYNC_URL": "https://host.test/a/b", "JETSYNC_DOCS_URL": "https://docs.test/b/"},
            [
                "Source, https://host.test/a/b",
                "Issues, https://host.test/a/b/issues",
                "Changelog, https://host.test/a/b/blob/main/CHANGELOG.md",
                "Documentation, https://docs.test/b/",
            ],
        ),
    ],
    ids=["development", "release"],
)
def test_a_release_says_where_it_comes_from(tmp_path, addresses, told):
    """The release workflow knows its own repository; no other address is written down anywhere."""
    tree = tmp_path / "tree"
    for room in ("csrc", "jetsync"):
        shutil.copytree(ROOT / room, tree / room, ignore=MADE_HERE)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, tree / name)
    run("-c", METADATA.format(addresses=addresses, folder=str(tmp_path)), cwd=tree)
    (path,) = tmp_path.glob("*.dist-info/METADATA")
    lines = path.read_text(encoding="utf-8").splitlines()
    label = "Project-URL: "
    assert sorted(one.removeprefix(label) for one in lines if one.startswith(label)) == sorted(told)


def sources(*patterns: str) -> set[str]:
    found = {p for room in ("jetsync", "csrc") for s in patterns for p in (ROOT / room).rglob(s)}
    return {path.relative_to(ROOT).as_posix() for path in found}


@pytest.mark.skipif(not IN_CI, reason="a developer's tests run on the checkout; CI has the wheel")
@pytest.mark.skipif(
    sys.version_info < (3, 11),
    reason="this machine forbids it: Python 3.10 keeps the checkout on its path; later ones run it",
)
def test_continuous_integration_tests_the_wheel_that_it_built(wheel):
    """Every installed file is the wheel's, byte for byte, and nothing comes from the checkout."""
    place = Path(jetsync.__file__).parents[1]
    assert not place.samefile(ROOT)
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith("jetsync/"):
                assert (place / name).read_bytes() == archive.read(name), name


def test_the_source_distribution_has_every_source_and_nothing_made_of_it(sdist):
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    made = {f"jetsync/_core/{path.stem}.c" for path in (ROOT / "jetsync/_core").glob("*.pyx")}
    kept = sources("*.py", "*.pyx", "*.pxd", "*.pyi", "*.c", "*.h", "py.typed") - made
    assert kept <= names
    assert {"setup.py", "pyproject.toml", "LICENSE", "README.md", "pyspark_jetsync.py"} <= names
    assert not made & names
    assert not [name for name in names if name.endswith((".so", ".pyc"))]


def test_a_wheel_made_from_it_has_every_module(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    compiled = {name.split(".")[0] for name in names if name.endswith(".so")}
    assert compiled == {name.removesuffix(".pyx") for name in sources("*.pyx")}
    assert sources("*.pyi", "py.typed") <= set(names)
    assert {n.split(".data/purelib/")[-1] for n in names} >= sources("*.py")


def test_a_wheel_has_its_bill_of_materials(wheel):
    """PEP 770: CycloneDX below ``.dist-info/sboms``, of the version that the wheel has."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/sboms/jetsync.cdx.json"))
        bill = json.loads(archive.read(name))
        record = archive.read(f"jetsync-{jetsync.__version__}.dist-info/RECORD").decode()
    assert (bill["bomFormat"], bill["components"]) == ("CycloneDX", [])
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/jetsync@{jetsync.__version__}"
    assert name in record


@pytest.mark.parametrize(
    ("tag", "changelog", "wrong"),
    [
        ("v1.2.3", "## [Unreleased]\n\n## [1.2.3] - 2030-01-01\n\n- A change.\n", 0),
        ("1.2.3", "## [Unreleased]\n\n## [1.2.3] - 2030-01-01\n", 1),
        ("v1.2.3", "## [Unreleased]\n\n- A change.\n\n## [1.2.3] - 2030-01-01\n", 1),
        ("v1.2.4", "## [Unreleased]\n\n- A change.\n\n## [1.2.2] - 2030-01-01\n", 3),
    ],
)
def test_a_release_needs_one_version_everywhere(tag, changelog, wrong):
    release = runpy.run_path(str(ROOT / ".ci/release.py"))
    assert len(release["faults"](tag, "1.2.3", changelog)) == wrong


@pytest.mark.parametrize(
    ("tag", "folder"), [("v0.2.0", "0.2"), ("1.12.3", "1.12"), ("v1.2", None), ("main", None)]
)
def test_the_pages_of_a_minor_version_have_one_folder(tag, folder):
    place = runpy.run_path(str(ROOT / ".ci/docs/deploy.py"))["place"]
    if folder is None:
        with pytest.raises(SystemExit, match="is no version"):
            place(tag)
    else:
        assert place(tag) == folder


def test_a_patch_of_an_older_version_is_not_the_latest_documentation():
    is_latest = runpy.run_path(str(ROOT / ".ci/docs/deploy.py"))["is_latest"]
    assert is_latest("0.1", [])
    assert is_latest("1.10", ["1.9", "1.10", "0.4"])
    assert not is_latest("1.9", ["1.10"])


def test_the_wheel_works_where_nothing_else_is_installed(wheel, tmp_path):
    """No dependencies: it is imported, and its core used, with nothing but itself on the path."""
    run(
        "-m", "pip", "install", "--no-deps", "--no-index", "--target", tmp_path, wheel, cwd=tmp_path
    )
    program = (
        "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "import jetsync\n"
        "print(jetsync.__file__)\n"
        "print(jetsync.parse_ack_subject('$JS.ACK.S.c.1.2.3.1700000000000000000.4').stream_seq)\n"
    )
    where, seq = run("-I", "-c", program, cwd=tmp_path).split()
    assert Path(where).is_relative_to(tmp_path)
    assert seq == "2"
