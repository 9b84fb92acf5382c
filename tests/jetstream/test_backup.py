"""Backups: a stream in a folder, and the same stream made of it."""

from __future__ import annotations

import json
import os
import stat

import pytest

import jetsync
from jetsync.client.port import Port
from jetsync.client.requests import Exchange
from jetsync.jetstream.streams import backup
from jetsync.server import NatsCluster, NatsServer
from tests.harness.conditioner import Link
from tests.harness.waiting import wait_until


def fresh(js):
    """A new stream without messages. A busy server that has just deleted one of that name finds its
    files again at times."""
    made = js.create_stream(name="SAVED", subjects=["saved.>"])
    while made.cached_info.state.last_seq:
        js.delete_stream("SAVED")
        made = js.create_stream(name="SAVED", subjects=["saved.>"])
    return made


@pytest.fixture
def stream(js):
    made = fresh(js)
    js.publish_many((f"saved.{n % 3}", b"%d" % n * 3000, {"N": str(n)}) for n in range(300))
    made.get_msg(1)
    made.delete_msg(7)
    made.create_consumer(durable_name="d", ack_policy="explicit").fetch(5, timeout=9).ack_sync()
    yield made
    js.delete_stream("SAVED")


def test_a_restored_stream_is_the_stream_that_was_backed_up(stream, js, tmp_path):
    steps = []
    before = stream.info(deleted_details=True)
    consumer = stream.consumer("d").info()
    made = stream.backup(tmp_path / "b", progress=lambda *step: steps.append(step), chunk_size=8192)
    assert made.state.messages == before.state.messages == 299
    assert made.bytes == (tmp_path / "b/stream.tar.s2").stat().st_size == steps[-1][0]
    assert made.config.subjects == before.config.subjects
    js.delete_stream("SAVED")

    sent = []
    restored = js.restore_stream(tmp_path / "b", progress=lambda *step: sent.append(step))
    after = restored.info(deleted_details=True)
    assert after.state == before.state
    assert after.config == before.config
    assert sent[-1] == (made.bytes, made.bytes)
    assert restored.consumer("d").info().ack_floor.stream_seq == consumer.ack_floor.stream_seq == 5
    read = restored.ordered_consumer().fetch(299, timeout=9)
    assert [msg.data for msg in read] == [b"%d" % n * 3000 for n in range(300) if n != 6]
    assert read[0].headers["N"] == "0"


def test_a_backup_is_for_its_owner_and_holds_what_the_server_wrote(stream, tmp_path):
    stream.backup(tmp_path / "b", consumers=False, check=True)
    names = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "b").iterdir()}
    assert names == {"backup.json": 0o600, "stream.tar.s2": 0o600}
    about = json.loads((tmp_path / "b/backup.json").read_bytes())
    assert set(about) == {"config", "state"}
    assert (about["config"]["name"], about["state"]["messages"]) == ("SAVED", 299)
    assert (tmp_path / "b/stream.tar.s2").read_bytes()[:10] == b"\xff\x06\x00\x00S2sTwO"


def test_another_configuration_can_be_given_but_no_other_name(stream, js, tmp_path):
    stream.backup(tmp_path, consumers=False)
    js.delete_stream("SAVED")
    config = stream.cached_info.config
    for wrong in ({"name": "OTHER"}, {"storage": "memory"}):
        fields = {**config.to_wire(), **wrong}
        with pytest.raises(jetsync.ConfigError):
            js.restore_stream(tmp_path, config=jetsync.StreamConfig.from_wire(fields))
    fields = {**config.to_wire(), "description": "restored"}
    restored = js.restore_stream(tmp_path, config=jetsync.StreamConfig.from_wire(fields))
    assert restored.cached_info.config.description == "restored"
    assert restored.cached_info.state.messages == 299
    assert list(restored.consumer_names()) == []
    with pytest.raises(jetsync.StreamNameInUseError):
        js.restore_stream(tmp_path)


def test_a_folder_with_a_backup_is_not_written_again(stream, tmp_path):
    stream.backup(tmp_path)
    with pytest.raises(jetsync.ConfigError, match="holds a backup"):
        stream.backup(tmp_path)


def test_a_backup_that_fails_leaves_nothing(stream, nc, tmp_path):
    class Stop(Exception):
        pass

    def stop(done, total):
        raise Stop

    with pytest.raises(Stop):
        stream.backup(tmp_path, progress=stop)
    assert list(tmp_path.iterdir()) == []
    with Link(nc.connected_url) as link, jetsync.connect(link.url) as far:
        late = far.jetstream().stream(stream.name)
        link.stall(way="to_client")
        with pytest.raises(jetsync.TimeoutError):
            late.backup(tmp_path, timeout=0.1)
        link.resume()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["no json", "[]", '{"config": {}}'])
def test_what_is_no_backup_is_refused_before_anything_is_sent(js, tmp_path, text):
    with pytest.raises(jetsync.ConfigError, match=r"backup\.json"):
        js.restore_stream(tmp_path)
    (tmp_path / "backup.json").write_text(text)
    with pytest.raises(jetsync.ConfigError, match="no backup"):
        js.restore_stream(tmp_path)


def restored_again(js, folder):
    """The messages of a stream whose last restore was stopped: the server clears up behind its
    answer, and refuses another one meanwhile."""

    def restored():
        try:
            return js.restore_stream(folder)
        except jetsync.StoreFailedError:
            return None

    return wait_until(restored, timeout=20).cached_info.state.messages


def test_a_damaged_backup_makes_no_stream(stream, js, tmp_path):
    stream.backup(tmp_path)
    js.delete_stream("SAVED")
    data = tmp_path / "stream.tar.s2"
    whole = data.read_bytes()
    data.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(jetsync.Error):
        js.restore_stream(tmp_path, timeout=20)
    with pytest.raises(jetsync.StreamNotFoundError):
        js.stream("SAVED")
    data.write_bytes(whole)
    assert restored_again(js, tmp_path) == 299


@pytest.mark.parametrize("stop", [RuntimeError, KeyboardInterrupt])
def test_a_restore_that_is_stopped_leaves_no_stream(stream, js, tmp_path, stop):
    stream.backup(tmp_path)
    js.delete_stream("SAVED")

    def raises(done, total):
        raise stop

    with pytest.raises(stop):
        js.restore_stream(tmp_path, progress=raises)
    with pytest.raises(jetsync.StreamNotFoundError):
        js.stream("SAVED")
    assert restored_again(js, tmp_path) == 299


def test_a_restore_that_is_stopped_after_the_last_piece_leaves_no_stream(
    stream, js, tmp_path, monkeypatch
):
    stream.backup(tmp_path)
    js.delete_stream("SAVED")
    refusal, stopped = backup._refusal, []

    def stop(msg):
        if msg.data.startswith(b"{") and not stopped:
            stopped.append(msg)
            raise KeyboardInterrupt
        refusal(msg)

    monkeypatch.setattr(backup, "_refusal", stop)
    with pytest.raises(KeyboardInterrupt):
        js.restore_stream(tmp_path)
    with pytest.raises(jetsync.StreamNotFoundError):
        js.stream("SAVED")
    assert restored_again(js, tmp_path) == 299


@pytest.mark.parametrize("stop", [KeyboardInterrupt, jetsync.TimeoutError])
def test_a_restore_that_is_stopped_before_its_first_answer_leaves_no_stream(
    tmp_path, monkeypatch, stop
):
    send, stopped, undone = Exchange._send, [], []

    def sent(self, deadline, link):
        reply = send(self, deadline, link)
        if ".STREAM.RESTORE." in self._subject and not stopped:
            stopped.append(True)
            raise stop("while the server makes the stream")
        if ".STREAM.DELETE." in self._subject:
            undone.append(True)
        return reply

    with NatsCluster(3) as cluster, jetsync.connect(cluster.urls) as nc:
        js = nc.jetstream(timeout=20)
        js.create_stream(name="EARLY", subjects=["early"], num_replicas=3).backup(tmp_path / "b")
        js.delete_stream("EARLY")
        # The leader of all streams may learn it later than the one that answers, and would refuse.
        wait_until(lambda: "EARLY" not in js.stream_names())
        monkeypatch.setattr(Exchange, "_send", sent)
        monkeypatch.setattr(backup, "_LAST_WORD", 20.0)  # on whatever machine this is
        with pytest.raises(stop):
            js.restore_stream(tmp_path / "b")
        assert undone
        with pytest.raises(jetsync.StreamNotFoundError):
            js.stream("EARLY")
        js.restore_stream(tmp_path / "b")


def test_a_restore_that_gets_no_answer_tells_what_may_be_left(fresh_server, tmp_path):
    """It ends with its time, and an interrupt is not held up either: see test_every_call."""
    told = []
    with jetsync.connect(fresh_server.url, on_error=lambda event: told.append(event.error)) as nc:
        js = nc.jetstream()
        js.create_stream(name="EARLY", subjects=["early"]).backup(tmp_path)
        js.delete_stream("EARLY")
        fresh_server.pause()
        with pytest.raises(jetsync.TimeoutError):
            js.restore_stream(tmp_path, timeout=0.2)
        fresh_server.resume()
        wait_until(lambda: told)
    assert "stream 'EARLY' may be left, in part: delete it" in str(told[0])


def test_a_restore_waits_until_the_servers_know_where_its_pieces_go(
    stream, js, tmp_path, monkeypatch
):
    stream.backup(tmp_path)
    js.delete_stream("SAVED")
    send, early = Port.send, []

    def sent(self, subject, *arguments, **options):
        if subject.startswith("$JS.SNAPSHOT.RESTORE.") and len(early) < 2:
            early.append(subject)
            subject = "unheard.subject"
        return send(self, subject, *arguments, **options)

    monkeypatch.setattr(Port, "send", sent)
    assert js.restore_stream(tmp_path).cached_info.state.messages == 299
    assert len(early) == 2


@pytest.mark.parametrize("more", [{"messages": 300}, {"last_seq": 301}])
def test_a_restored_stream_with_fewer_messages_than_its_backup_is_deleted(
    stream, js, tmp_path, more
):
    stream.backup(tmp_path)
    js.delete_stream("SAVED")
    path = tmp_path / "backup.json"
    whole = path.read_bytes()
    about = json.loads(whole)
    about["state"].update(more)
    path.write_text(json.dumps(about))
    with pytest.raises(jetsync.BackupError, match="299 messages up to 300"):
        js.restore_stream(tmp_path)
    path.write_bytes(whole)
    assert restored_again(js, tmp_path) == 299


def test_a_restore_over_a_lost_link_leaves_no_stream(tmp_path):
    with NatsServer(store_dir=tmp_path / "s") as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(name="CUT", subjects=["cut"])
        js.publish_many(("cut", os.urandom(100_000)) for _ in range(10))
        js.stream("CUT").backup(tmp_path / "b")
        js.delete_stream("CUT")

        def cut(done, total):
            if done < 300_000:
                nc.force_reconnect()

        with pytest.raises(jetsync.Error):
            js.restore_stream(tmp_path / "b", progress=cut, timeout=9)
        assert [info.config.name for info in js.streams()] == []


@pytest.mark.timed
def test_the_first_piece_of_a_backup_comes_at_once(stream, tmp_path):
    # The server waits for two seconds when it sees no interest in the very subject.
    assert stream.backup(tmp_path).seconds < 1.9


def test_a_part_file_follows_no_link(stream, tmp_path):
    other = tmp_path / "other"
    other.write_text("mine")
    folder = tmp_path / "b"
    folder.mkdir()
    (folder / "stream.tar.s2.part").symlink_to(other)
    stream.backup(folder)
    assert other.read_text() == "mine"
    (folder / "backup.json").unlink()
    with pytest.raises(jetsync.ConfigError, match="holds a backup"):
        stream.backup(folder)


def test_a_deeply_nested_file_is_no_backup(js, tmp_path):
    (tmp_path / "backup.json").write_text("[" * 200_000)
    with pytest.raises(jetsync.ConfigError, match="no backup"):
        js.restore_stream(tmp_path)


def test_a_backup_ends_with_its_server(tmp_path):
    with NatsServer() as server, jetsync.connect(server.url, reconnect=False) as nc:
        js = nc.jetstream()
        stream = js.create_stream(name="CUT", subjects=["cut"])
        js.publish_many(("cut", os.urandom(100_000)) for _ in range(40))

        def kill(done, total):
            server.kill()

        with pytest.raises(jetsync.Error):
            stream.backup(tmp_path, progress=kill, chunk_size=4096, window_size=8192, timeout=9)
        wait_until(lambda: nc.is_closed)
    assert list(tmp_path.iterdir()) == []
