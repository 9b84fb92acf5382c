"""jetsync.cli - the command ``jetsync`` and its demo. Programs do not need it.

Room:      L7. May import: worker, spark, services, kv, objectstore, jetstream, client, protocol,
           server, hallway. Nothing imports it.
Threads:   none of its own; commands run on the main thread so that Ctrl-C reaches them.
Touch me:  to change a command, its options, its progress and tables, or how it finds Java.
Not here:  starting nats-server (server/), the Spark data source (spark/), what programs call.
"""
