"""jetsync.jetstream.streams - streams: their configuration and state, and the messages they hold.

Room:      L4, a part of jetstream/. May import: client, protocol, hallway, the rest of jetstream.
Threads:   none of its own; callbacks run on threads that client/ starts.
Touch me:  to change a field of StreamConfig or StreamInfo, a call on streams, direct get.
Not here:  publishing into a stream (publish/), what a consumer delivers (consumers/, pull/, push/).
"""
