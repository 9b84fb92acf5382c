"""``python -m jetsync.worker`` is ``jetsync worker``."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from jetsync.cli.main import main

    sys.exit(main(["worker", *sys.argv[1:]]))
