"""A large message is copied once beside the kernel, whether it is published or received."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.client.copying import FIRST, WAYS
from tests.csrc.build import ROOT, clean_environment, compiler, run_tool
from tests.harness.places import SEARCH_PATH
from tests.harness.soak import scaled

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or "libasan" in os.environ.get("LD_PRELOAD", ""),
    reason="puts itself in front of glibc's memcpy; elsewhere the same code runs uncounted",
)

SIZES = scaled({64 * 1024: 20, 1024 * 1024: 4}, {64 * 1024: 500, 1 << 20: 40, 8 << 20: 10})


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("copies") / "copies.so"
    include = sysconfig.get_paths()["include"]
    run_tool([
        *compiler(), "-std=gnu11", "-O1", "-fno-builtin", "-shared", "-fPIC", "-Wall", "-Wextra",
        "-Werror", f"-I{include}", str(ROOT / "tests/harness/copies.c"), "-o", str(path),
    ])  # fmt: skip
    return path


@pytest.fixture(scope="module")
def roomy_url():
    config = {"max_payload": 9 * 1024 * 1024}
    with NatsServer(jetstream=True, config=config) as server:
        with jetsync.connect(server.url) as nc:
            nc.jetstream().create_stream(name="LARGE", subjects=["kept.>"], storage="memory")
        yield server.url


@pytest.mark.straight
@pytest.mark.parametrize("way", WAYS)
def test_a_large_message_is_copied_once(library, roomy_url, tmp_path, way, record_figure):
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.client.copying", str(library), roomy_url, way]
        + [f"{size}:{count}" for size, count in SIZES.items()],
        env={**clean_environment(), "LD_PRELOAD": str(library), "PYTHONPATH": SEARCH_PATH},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    said = []
    with program, jetsync.connect(roomy_url) as nc:
        assert program.stdout is not None
        for size, count in SIZES.items():
            if way == "receive":
                assert program.stdout.readline() == "ready\n"
                for _ in range(FIRST + count):
                    nc.publish(f"large.{size}", b"y" * size)
                nc.flush(timeout=60)
            said.append(program.stdout.readline())
        program.communicate(timeout=60)
    assert program.returncode == 0
    for size, copies in zip(SIZES, map(float, said), strict=True):
        record_figure(f"copies of {size} B, {way}", copies, goal="<= 1.03")
        # What stands around a message, and what came with the end of the one before, is little.
        assert 0.99 <= copies <= 1.03
