"""The promises of the core client under faults, load and the end of processes.

Every test here has one body and two sizes: the short one of every commit, and the long one of
``make soak`` (``JETSYNC_SOAK=1``). What they measure is shown after the run.
"""
