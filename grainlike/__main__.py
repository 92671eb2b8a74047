"""`python -m grainlike` is the same program as `grainlike`."""

import sys

from grainlike.cli import main

if __name__ == "__main__":
    sys.exit(main())
