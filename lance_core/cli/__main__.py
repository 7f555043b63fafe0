"""``python -m lance_core.cli``."""

import sys

from lance_core.cli import main

if __name__ == "__main__":
    sys.exit(main())
