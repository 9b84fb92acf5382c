"""help() of a field shows the text below it; a notebook shows infos as tables."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc

import pytest

import jetsync
from jetsync.jetstream._field_docs import FieldDocs

CONFIGURATIONS = [
    jetsync.StreamConfig,
    jetsync.ConsumerConfig,
    jetsync.KeyValueConfig,
    jetsync.ObjectStoreConfig,
    jetsync.StreamSource,
    jetsync.Placement,
    jetsync.StreamInfo,
    jetsync.StreamState,
    jetsync.ConsumerInfo,
    jetsync.AccountInfo,
]


@pytest.mark.parametrize("kind", CONFIGURATIONS, ids=lambda kind: kind.__name__)
def test_help_of_every_field_shows_its_docstring(kind):
    texts = {name: inspect.getdoc(getattr(kind, name)) for name in kind.__slots__}
    assert [name for name, text in texts.items() if not text] == []
    assert "How long" in pydoc.plain(pydoc.render_doc(vars(jetsync.StreamConfig)["max_age"]))


def test_a_class_without_source_has_fields_without_docstrings():
    kind = type("Made", (), {"__slots__": ("a",)})
    assert FieldDocs(kind, ["a"])["a"] == ""


def test_configurations_are_copied_and_pickled_as_before():
    config = jetsync.StreamConfig(name="A", max_age=5, metadata={"a": "b"})
    for twin in (pickle.loads(pickle.dumps(config)), copy.copy(config), copy.deepcopy(config)):
        assert twin == config


def test_a_table_has_the_fields_that_were_set_and_escapes_what_peers_wrote():
    config = jetsync.StreamConfig(
        name="A",
        description="<script>alert(1)</script>\x1b[2J",
        max_bytes=1_000_000,
        sources=[jetsync.StreamSource(name="B"), jetsync.StreamSource(name="C")],
    )
    html = config._repr_html_()
    assert "<th>max_bytes</th><td>1,000,000</td>" in html
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    assert "\x1b" not in html
    assert html.count("<caption>StreamSource</caption>") == 2
    assert "max_age" not in html


def test_a_batch_in_a_notebook_is_a_table_of_its_first_messages(js, stream):
    consumer = stream.create_consumer()
    rows = [(f"{stream.name}.{n}", b"<b>%d</b>" % n, {"Lang": "en"}) for n in range(12)]
    rows[1] = (rows[1][0], b"\xff" * 1_000_000, {})
    js.publish_many(rows)
    html = consumer.fetch(12, timeout=5)._repr_html_()
    assert "<caption>MsgBatch(12 messages, seq 1..12, " in html
    assert f"<tr><td>1</td><td>{stream.name}.0</td>" in html
    assert "&lt;b&gt;0&lt;/b&gt;" in html
    assert "Lang" in html
    assert html.count("<tr>") == 1 + 10 + 1
    assert "... and 2 more" in html
    assert len(html) < 10_000


def test_stored_messages_in_a_notebook_are_the_same_table(js, open_stream):
    js.publish(f"{open_stream.name}.a", b"text")
    html = open_stream.get_msgs(1, max_messages=5)._repr_html_()
    assert html.startswith("<table><caption>DirectBatch(1 message, seq 1..1, ")
    assert f"<td>1</td><td>{open_stream.name}.a</td>" in html
    assert "<td>text</td>" in html


def test_an_empty_batch_in_a_notebook_is_a_heading(stream):
    html = stream.create_consumer().fetch_no_wait(1)._repr_html_()
    assert html.startswith("<table><caption>MsgBatch(0 messages, 0 bytes)</caption>")
    assert html.count("<tr>") == 1
