"""jetsync.jetstream.streams - the calls on streams, and the messages they hold.

Room:      L4, a part of jetstream/. May import: client, protocol, _core, hallway, rooms of
           jetstream below.
Threads:   none of its own; callbacks run on threads that client/ starts.
Touch me:  to change a call on streams, direct get.
Not here:  configurations (config/), publishing (publish/), what a consumer delivers (consumers/).
"""
