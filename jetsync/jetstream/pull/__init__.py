"""jetsync.jetstream.pull - pulling messages: one mechanism for fetch, next, messages and consume.

Room:      L4, a part of jetstream/. May import: client, protocol, _core, hallway, rooms of
           jetstream below.
Threads:   none of its own; callbacks run on threads that client/ starts.
Touch me:  to change what a status means, when a pull is sent, how a buffer is refilled.
Not here:  acknowledgements (acks/), keeping an order over resets (ordered/).
"""
