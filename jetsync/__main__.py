"""Run the command line as ``python -m jetsync``."""

from __future__ import annotations

import sys

from jetsync.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
