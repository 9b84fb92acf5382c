"""A server's connection, a stream and the command for tests of verbs."""

from __future__ import annotations

import pytest

from tests.cli.run_command import Done, run


@pytest.fixture
def stream(nc, request):
    name = f"CLI{abs(hash(request.node.nodeid)) % 10**9}"
    made = nc.jetstream().create_stream(name=name, subjects=[f"{name}.>"], storage="memory")
    yield made
    nc.jetstream().delete_stream(name)


@pytest.fixture
def jet(url):
    """Run a command at the session's server."""

    def call(*arguments: str, stdin: bytes = b"", **environment: str) -> Done:
        return run(*arguments, stdin=stdin, **{"NATS_URL": url, **environment})

    return call
