"""A connection to the session's server, closed after the test."""

from __future__ import annotations

import pytest

import jetsync


@pytest.fixture
def nc(url):
    connection = jetsync.connect(url)
    yield connection
    connection.close()
