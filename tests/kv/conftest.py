"""A bucket of the test's own."""

from __future__ import annotations

import pytest


@pytest.fixture
def js(nc, never_empty):
    return nc.jetstream(timeout=20)


@pytest.fixture
def bucket(request):
    """A name of the test's own."""
    return f"b{abs(hash(request.node.nodeid)) % 10**9}"


@pytest.fixture
def kv(js, bucket):
    """A fresh memory bucket with a history of five."""
    yield js.create_key_value(bucket=bucket, history=5, storage="memory")
    js.delete_key_value(bucket)
