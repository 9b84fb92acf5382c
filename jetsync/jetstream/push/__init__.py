"""jetsync.jetstream.push - push consumers: heartbeats, flow control and gaps, watched for the user.

Room:      L4, a part of jetstream/. May import: client, protocol, _core, hallway, rooms of
           jetstream below.
Threads:   none of its own; callbacks run on threads that client/ starts.
Touch me:  to change what a status of a push consumer means, or how its messages are handed out.
Not here:  finding or making the consumer (subscribe/).
"""
