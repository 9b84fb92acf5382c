"""jetsync.jetstream.subscribe - the subscribe workflow: find the stream, bind or make the consumer.

Room:      L4, a part of jetstream/. May import: client, protocol, _core, hallway, rooms of
           jetstream below.
Threads:   none of its own; callbacks run on threads that client/ starts.
Touch me:  to change what `subscribe` and `pull_subscribe` check, bind to, create and delete.
Not here:  what comes afterwards (push/, pull/).
"""
