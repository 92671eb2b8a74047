"""The process of a `Child`: `python -m grainlike.calls DESCRIPTOR`."""

import sys

from grainlike.calls._child import serve

if __name__ == "__main__":
    serve(int(sys.argv[1]))
