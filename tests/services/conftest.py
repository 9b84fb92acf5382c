"""A second connection to the session's server: the first offers services, this one asks."""

from __future__ import annotations

import pytest

import jetsync
from jetsync.services import ServiceClient


@pytest.fixture
def asking(url):
    connection = jetsync.connect(url)
    yield connection
    connection.close()


@pytest.fixture
def client(asking):
    return ServiceClient(asking, timeout=20)


@pytest.fixture
def name(request):
    """A service name of the test's own: the server is shared."""
    return f"s{abs(hash(request.node.nodeid)) % 10**9}"
