"""publish_arrow takes all that gives Arrow columns: frames, readers, views and dictionaries."""

from __future__ import annotations

import uuid

import polars
import pyarrow as pa
import pytest

import jetsync


def _as_reader(table):
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())


def _as_views(table):
    columns = {
        "subject": table["subject"].combine_chunks().cast(pa.string_view()),
        "data": table["data"].combine_chunks().cast(pa.binary_view()),
        "id": table["id"].combine_chunks().dictionary_encode(),
    }
    return pa.record_batch(columns)


@pytest.mark.parametrize("form", [polars.DataFrame, pa.Table.to_pandas, _as_reader, _as_views])
def test_publish_arrow_takes_all_that_gives_columns(js, form):
    name = f"FORMS{uuid.uuid4().hex[:8]}"
    stream = js.create_stream(name=name, subjects=[f"{name}.>"], allow_atomic=True)
    try:
        rows = {"subject": [f"{name}.{n}" for n in "ab"], "data": [b"1", b"2"], "id": ["x", "y"]}
        table = pa.table(rows)
        assert js.publish_arrow(form(table), msg_id="id").stored == 2
        with js.batch() as batch:
            batch.add_arrow(form(table))
        msgs = [stream.get_msg(seq) for seq in (1, 2, 3, 4)]
        assert [(msg.subject[-1], msg.data) for msg in msgs] == [("a", b"1"), ("b", b"2")] * 2
        assert [msg.headers.get("Nats-Msg-Id") for msg in msgs[:2]] == ["x", "y"]
    finally:
        stream.delete()


def test_publish_arrow_refuses_what_has_no_columns(js):
    for data in (None, [pa.record_batch({"data": [b"1"]})], polars.Series("data", [b"1"])):
        with pytest.raises(jetsync.ConfigError, match="Arrow"):
            js.publish_arrow(data, subject="s")
