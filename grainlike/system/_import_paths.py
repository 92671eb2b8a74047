"""Import paths of this process, for the processes that run its functions elsewhere."""

import os
import sys

__all__ = ["import_paths"]


def import_paths() -> list[str]:
    """Return the paths that this process imports from. The empty one, of a REPL, is returned as its directory."""
    return [path or os.getcwd() for path in sys.path]  # noqa: PTH109 - a string is all that is needed
