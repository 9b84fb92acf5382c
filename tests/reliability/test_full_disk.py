"""A server whose disk is full: what it refuses says so, and what needs no disk goes on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import jetsync
from jetsync.server import NatsServer, find_binary

PATIENCE = 20.0
MIB = 2**20

# A file system of its own, which only the server sees; without root through a user namespace.
WRAPPER = """#!/bin/sh
exec unshare {options} sh -c '
    mount -t tmpfs -o size=8m tmpfs "{store}" && exec "{binary}" "$@"' server "$@"
"""


def ways_to_mount() -> list[str]:
    """Options of ``unshare`` that let a process mount something here; none without the right."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return []
    for options in ("-m", "-rm"):
        command = ["unshare", *options.split(), "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return [options]
    return []


@pytest.fixture
def full_disk(tmp_path: Path):
    """A server with a disk of 8 MiB, which takes no byte more."""
    ways = ways_to_mount()
    if not ways:
        pytest.skip("this machine forbids a mount; test_publish_refusals has a full stream")
    store = tmp_path / "store"
    store.mkdir()
    wrapper = tmp_path / "nats-server"
    wrapper.write_text(WRAPPER.format(options=ways[0], store=store, binary=find_binary()))
    wrapper.chmod(0o755)
    limits = {"jetstream": {"max_file_store": 1000 * MIB}}
    with (
        NatsServer(binary=wrapper, store_dir=store, config=limits) as server,
        jetsync.connect(server.url) as nc,
    ):
        js = nc.jetstream(timeout=PATIENCE)
        js.create_stream(name="F", subjects=["f"], storage="file")
        js.create_stream(name="M", subjects=["m"], storage="memory")
        js.publish("f", b"first")
        with (
            pytest.raises(OSError, match="No space"),
            open(f"/proc/{server.pid}/root{store}/filler", "wb", buffering=0) as filler,
        ):
            while True:
                filler.write(bytes(4096))
        yield js
        nc.close()


def test_a_full_disk_is_told_and_what_needs_no_disk_goes_on(full_disk):
    js = full_disk
    with pytest.raises(jetsync.StoreFailedError):
        js.create_stream(name="G", subjects=["g"], storage="file", timeout=PATIENCE)
    with pytest.raises((jetsync.NotStoredError, jetsync.PublishUnknownError)):
        js.publish("f", bytes(MIB // 2), timeout=1)
    assert bytes(js.stream("F").get_msg(1).data) == b"first"
    assert js.publish("m", b"on").seq == 1
