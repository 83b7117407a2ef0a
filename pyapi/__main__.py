"""``python -m pillion``."""

import sys

from pillion.cli import main

if __name__ == "__main__":
    sys.exit(main())
