"""jetsync.cli - the command ``jetsync``: what a person types, and nothing a program needs.

Room:      L7. May import: every floor below and the server room. Nothing imports it.
Threads:   none of its own; commands run on the main thread so that Ctrl-C reaches them.
Touch me:  to change a command, its options, its progress and tables, or how it finds Java.
Not here:  starting nats-server (server/), the Spark data source (spark/), what programs call.
"""
