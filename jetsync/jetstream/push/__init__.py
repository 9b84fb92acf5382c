"""jetsync.jetstream.push - push consumers: heartbeats, flow control and gaps, watched for the user.

Room:      L4, a part of jetstream/. May import: client, protocol, _core, hallway, rooms of
           jetstream below.
Threads:   delete, after a subscription with a callback; callbacks run on threads of client/.
Touch me:  to change what a status of a push consumer means, or how its messages are handed out.
Not here:  finding or making the consumer (subscribe/).
"""
