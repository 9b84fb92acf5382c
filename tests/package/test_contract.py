"""The public surface: every call and parameter that users were promised is there."""

from __future__ import annotations

import inspect

import pytest

import jetsync
import jetsync.server
import jetsync.services

PULL = "group min_pending min_ack_pending priority"
MESSAGES = (
    f"max_messages max_bytes expires heartbeat threshold_messages threshold_bytes {PULL} "
    "on_missed_heartbeat on_warning on_pinned on_unpinned stop_after"
)
PUBLISH = (
    "subject data headers timeout msg_id rollup expected_stream expected_last_seq "
    "expected_last_subject_seq expected_last_subject_filter expected_last_msg_id ttl schedule"
)
FUTURE = {
    "done": "",
    "running": "",
    "cancel": "",
    "cancelled": "",
    "result": "timeout",
    "exception": "timeout",
    "add_done_callback": "function",
    "to_future": "",
}
CALLS = {
    "Connection": {
        "publish": "subject data reply headers",
        "request": "subject data timeout headers",
        "request_many": "subject data timeout max_messages stall sentinel",
        "request_async": "subject data headers timeout",
        "subscribe": "subject queue callback pending_messages_limit pending_bytes_limit",
        "flush": "timeout",
        "rtt": "timeout",
        "drain": "timeout",
        "close": "",
        "force_reconnect": "",
        "new_inbox": "",
        "trace": "subject data headers deliver timeout",
        "jetstream": "domain api_prefix timeout max_pending auto_msg_id",
        "add_service": (
            "name version description metadata queue_group threads max_pending stats_handler "
            "on_error on_done prefix expose_errors"
        ),
    },
    "PubAckFuture": FUTURE,
    "RequestFuture": FUTURE,
    "Subscription": {
        "next": "timeout",
        "unsubscribe": "max_messages",
        "drain": "timeout",
        "__iter__": "",
    },
    "Msg": {"respond": "data headers", "json": ""},
    "JetStream": {
        "publish": PUBLISH,
        "publish_async": "subject data headers timeout msg_id options",
        "publish_async_wait": "timeout",
        "publish_many": "messages timeout max_pending msg_id max_failed",
        "publish_arrow": "batch subject data headers msg_id",
        "batch": "",
        "create_stream": "config timeout",
        "update_stream": "config timeout",
        "create_or_update_stream": "config timeout",
        "delete_stream": "name",
        "stream": "name",
        "streams": "subject",
        "stream_names": "subject",
        "stream_name_by_subject": "subject",
        "restore_stream": "folder config progress timeout",
        "account_info": "",
        "create_consumer": "stream config",
        "update_consumer": "stream config",
        "create_or_update_consumer": "stream config",
        "consumer": "stream name",
        "delete_consumer": "stream name",
        "consumers": "stream",
        "consumer_names": "stream",
        "pause_consumer": "stream name until",
        "resume_consumer": "stream name",
        "ordered_consumer": (
            "stream filter_subjects deliver_policy opt_start_seq opt_start_time headers_only "
            "max_reset_attempts"
        ),
        "subscribe": (
            "subject stream consumer durable queue config callback ordered manual_ack heartbeat "
            "flow_control delete_consumer"
        ),
        "pull_subscribe": "subject stream consumer durable config",
        "create_key_value": "config timeout",
        "update_key_value": "config timeout",
        "create_or_update_key_value": "config timeout",
        "key_value": "bucket timeout",
        "delete_key_value": "bucket timeout",
        "key_value_buckets": "timeout",
        "key_value_names": "timeout",
        "create_object_store": "config timeout",
        "update_object_store": "config timeout",
        "create_or_update_object_store": "config timeout",
        "object_store": "bucket timeout",
        "delete_object_store": "bucket timeout",
        "object_stores": "timeout",
        "object_store_names": "timeout",
    },
    "KeyValue": {
        "get": "key revision at_least default direct timeout",
        "exists": "key direct timeout",
        "get_many": "keys timeout",
        "iter_keys": "filters timeout",
        "iter_history": "filters timeout",
        "entries": "filters timeout",
        "items": "filters timeout",
        "modify": "key change timeout",
        "__contains__": "key",
        "__getitem__": "key",
        "__setitem__": "key value",
        "__delitem__": "key",
        "__iter__": "",
        "put": "key value timeout",
        "create": "key value ttl timeout",
        "update": "key value revision timeout",
        "delete": "key revision timeout",
        "purge": "key revision ttl timeout",
        "keys": "filters timeout",
        "history": "key timeout",
        "watch": (
            "keys ignore_deletes include_history updates_only meta_only resume_from_revision "
            "resume_token timeout"
        ),
        "purge_deletes": "older_than timeout",
        "status": "timeout",
    },
    "ObjectStore": {
        "put": "name_or_meta data timeout on_progress",
        "put_file": "path name timeout on_progress",
        "open": "name mode timeout",
        "copy": "name new_name to timeout",
        "get": "name timeout read_timeout",
        "get_bytes": "name start length timeout",
        "get_file": "name path timeout on_progress",
        "exists": "name timeout",
        "__contains__": "name",
        "__iter__": "",
        "prune": "older_than timeout",
        "info": "name show_deleted timeout",
        "update_meta": "name new_name timeout",
        "delete": "name timeout",
        "list": "prefix show_deleted timeout",
        "watch": "ignore_deletes include_history updates_only timeout",
        "add_link": "name target timeout",
        "add_bucket_link": "name target timeout",
        "seal": "timeout",
        "status": "timeout",
    },
    "ObjectReader": {"read": "size", "read1": "size", "seek": "offset", "tell": "", "close": ""},
    "ObjectWriter": {"write": "data", "abandon": "", "close": "", "__enter__": ""},
    "ObjectWatcher": {
        "next": "timeout",
        "initial": "timeout",
        "stop": "",
        "__iter__": "",
        "__enter__": "",
    },
    "Watcher": {
        "next": "timeout",
        "initial": "timeout",
        "stop": "",
        "__iter__": "",
        "__enter__": "",
    },
    "Stream": {
        "info": "subjects_filter deleted_details",
        "purge": "subject keep seq",
        "backup": "folder consumers check chunk_size window_size progress timeout",
        "get_msg": "seq next_by_subject",
        "get_last_msg": "subject",
        "get_msgs": "start_seq max_messages max_bytes subject",
        "get_last_msgs": "subjects up_to_seq up_to_time",
        "delete_msg": "seq secure",
        "create_consumer": "config",
        "update_consumer": "config",
        "create_or_update_consumer": "config",
        "consumer": "name",
        "delete_consumer": "name",
        "consumers": "",
        "consumer_names": "",
        "delete": "",
    },
    "Consumer": {
        "fetch": f"max_messages max_bytes timeout heartbeat eager {PULL}",
        "fetch_no_wait": "max_messages",
        "next": "timeout",
        "messages": MESSAGES,
        "consume": "callback options",
        "info": "",
        "pause": "until",
        "resume": "",
        "unpin": "group",
        "reset": "seq",
        "delete": "",
        "lag": "",
        "explain_stall": "",
    },
    "OrderedConsumer": {
        "fetch": "max_messages max_bytes timeout heartbeat",
        "next": "timeout",
        "messages": "max_messages max_bytes expires heartbeat stop_after",
        "consume": "callback",
        "info": "",
    },
    "MessageStream": {
        "next": "timeout",
        "batches": "max_messages timeout",
        "stop": "",
        "drain": "",
        "__iter__": "",
        "__enter__": "",
    },
    "ConsumeContext": {"stop": "", "drain": "timeout", "wait": "timeout", "__enter__": ""},
    "MsgBatch": {
        "ack": "",
        "ack_sync": "timeout",
        "nak": "delay",
        "to_arrow": "",
        "keep_alive": "",
        "__len__": "",
        "__iter__": "",
    },
    "JetStreamMsg": {
        "ack": "",
        "ack_sync": "timeout",
        "nak": "delay",
        "in_progress": "",
        "term": "reason",
        "ack_next": "",
        "keep_alive": "",
    },
    "PublishBatch": {
        "add": "subject data",
        "add_arrow": "batch subject data headers msg_id",
        "commit": "",
        "discard": "",
        "__enter__": "",
    },
    "PullSubscription": {"fetch": "n timeout"},
}
ATTRIBUTES = {
    "Connection": (
        "status is_connected is_closed connected_url server_info max_payload client_id stats "
        "last_error"
    ),
    "Subscription": "pending_messages pending_bytes dropped delivered is_active",
    "Msg": "subject data reply headers raw_headers size",
    "JetStream": "publish_async_pending",
    "Stream": "name cached_info",
    "Consumer": "cached_info name stream_name",
    "ConsumeContext": "is_active error",
    "MsgBatch": "first_seq last_seq nbytes",
    "JetStreamMsg": "metadata is_acked seq",
}
ATTRIBUTES |= {
    "MsgMetadata": (
        "stream consumer num_delivered stream_seq consumer_seq timestamp timestamp_ns num_pending "
        "domain account_hash"
    ),
    "PubAck": "stream seq duplicate domain value",
    "PublishReport": "stored duplicates failed first_seq last_seq",
    "ConsumerLag": "num_pending num_ack_pending num_redelivered num_waiting",
    "Event": "kind connection error server",
    "KeyValue": "bucket",
    "Watcher": "initial_done resume_token",
    "Entry": "bucket key value revision created created_ns delta operation",
    "KeyValueStatus": (
        "bucket values bytes history ttl limit_marker_ttl is_compressed backing_store metadata "
        "config stream_info"
    ),
    "ObjectStore": "bucket",
    "ObjectReader": "info readinto readline __enter__ __iter__",
    "ObjectWatcher": "initial_done",
    "ObjectWriter": "info",
    "PrunedChunks": "nuid chunks size modified modified_ns",
    "ObjectMeta": "name description headers metadata chunk_size",
    "ObjectInfo": (
        "name bucket nuid size chunks digest deleted description headers metadata chunk_size link "
        "modified modified_ns"
    ),
    "ObjectStoreStatus": (
        "bucket description metadata ttl storage replicas sealed size is_compressed backing_store "
        "config stream_info"
    ),
    "ObjectStoreConfig": (
        "bucket description ttl max_bytes storage replicas placement compression allow_atomic "
        "metadata"
    ),
    "KeyValueConfig": (
        "bucket description history ttl max_value_size max_bytes storage replicas placement "
        "republish mirror mirror_direct sources compression limit_marker_ttl metadata"
    ),
}
SERVERS = {
    "NatsServer": "url start stop kill pause resume restart reload lame_duck __enter__",
    "NatsCluster": "url start stop kill pause resume restart reload lame_duck __enter__",
}


@pytest.mark.parametrize(
    ("kind", "call"), [(kind, call) for kind, calls in CALLS.items() for call in calls]
)
def test_a_call_takes_what_was_promised(kind, call):
    found = inspect.signature(getattr(getattr(jetsync, kind), call)).parameters
    missing = [name for name in CALLS[kind][call].split() if name not in found]
    assert not missing, f"{kind}.{call}({', '.join(found)}) lacks {missing}"


def offers(kind, name):
    """Whether objects have this attribute: by their class, as a field, or from __init__."""
    found = getattr(jetsync, kind)
    if hasattr(found, name) or name in inspect.signature(found).parameters:
        return True
    return name in found.__init__.__code__.co_names


@pytest.mark.parametrize("kind", ATTRIBUTES)
def test_attributes(kind):
    assert [name for name in ATTRIBUTES[kind].split() if not offers(kind, name)] == []


SERVICES = {
    "Service.endpoint": "name subject queue_group metadata threads",
    "Service.add_endpoint": "name handler subject queue_group metadata threads",
    "Service.add_group": "name queue_group",
    "Service.info": "",
    "Service.ping": "",
    "Service.stats": "",
    "Service.reset": "",
    "Service.stop": "error timeout",
    "Service.wait": "timeout",
    "ServiceGroup.endpoint": "name subject queue_group metadata threads",
    "ServiceGroup.add_endpoint": "name handler subject queue_group metadata threads",
    "ServiceGroup.add_group": "name queue_group",
    "ServiceRequest.respond": "data headers",
    "ServiceRequest.respond_json": "value headers",
    "ServiceRequest.respond_error": "code description data headers",
    "ServiceClient.call": "subject data headers timeout",
    "ServiceClient.ping": "name id max_responses stall timeout",
    "ServiceClient.info": "name id max_responses stall timeout",
    "ServiceClient.stats": "name id max_responses stall timeout",
}


@pytest.mark.parametrize("call", SERVICES)
def test_a_call_of_services_takes_what_was_promised(call):
    kind, name = call.split(".")
    found = inspect.signature(getattr(getattr(jetsync.services, kind), name)).parameters
    assert [name for name in SERVICES[call].split() if name not in found] == []


@pytest.mark.parametrize("kind", SERVERS)
def test_the_server_helper(kind):
    found = getattr(jetsync.server, kind)
    assert [name for name in SERVERS[kind].split() if not hasattr(found, name)] == []


def test_errors_carry_what_handlers_need():
    assert issubclass(jetsync.ConfigError, ValueError)
    assert issubclass(jetsync.PublishUnknownError, jetsync.TimeoutError)
    error = jetsync.APIError("x", code=404, err_code=10059, description="y")
    assert (error.code, error.err_code, error.description) == (404, 10059, "y")
