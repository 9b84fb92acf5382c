"""A bucket of the test's own."""

from __future__ import annotations

import pytest


@pytest.fixture
def js(nc, never_empty):
    return nc.jetstream(timeout=20)


@pytest.fixture
def bucket(request):
    """A name of the test's own."""
    return f"o{abs(hash(request.node.nodeid)) % 10**9}"


@pytest.fixture
def store(js, bucket):
    """A fresh memory bucket."""
    yield js.create_object_store(bucket=bucket, storage="memory")
    js.delete_object_store(bucket)


@pytest.fixture
def chunks(js, bucket):
    """Ask how many chunks the bucket holds of anything."""

    def count():
        stream = js.stream(f"OBJ_{bucket}")
        return sum(stream.info(subjects_filter=f"$O.{bucket}.C.>").state.subjects.values())

    return count
