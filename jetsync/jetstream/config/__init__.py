"""jetsync.jetstream.config - what streams and consumers are: their configurations and their state.

Room:      L4, a part of jetstream/. May import: client, protocol, _core, hallway, and _wire.
Threads:   none; nothing here blocks.
Touch me:  to change a field of StreamConfig, ConsumerConfig, StreamInfo, ConsumerInfo, AccountInfo.
Not here:  the calls that make and change them (streams/, consumers/).
"""
