"""Directories of jobs for what they need on disk while they run. Nothing is made before a job asks.

They lie below one directory for each process, and those below one of the keeper's: so what a job that was killed could
not remove is removed by its keeper, and what is left of a worker that was killed, too.
"""

import os
from pathlib import Path

from grainlike._private import ANY_ACCESS, folder, folder_in

__all__ = ["Scratch", "directory_for", "remove"]


class Scratch:
    """The directories of one lease's jobs, below `root`; without a root, each in the system's place for such things."""

    __slots__ = ("_made", "_root")

    def __init__(self, root: str | None) -> None:
        self._root = root
        self._made: dict[str, Path] = {}

    def __bool__(self) -> bool:
        """Whether there is anything to remove."""
        return bool(self._made)

    def make(self, name: str) -> Path:
        """The directory of a job, made when it asks for the first time."""
        path = self._made.get(name)
        if path is None:
            path = self._made[name] = _new(self._root, name)
        return path

    def remove(self) -> None:
        """Remove them all with what is in them; what cannot be removed stays."""
        for path in self._made.values():
            remove(str(path))
        self._made.clear()


def directory_for(name: str) -> str:
    """Where the directories of a worker's jobs shall lie: a name that nobody else has, and nothing there yet."""
    places = [*map(os.environ.get, ("TMPDIR", "TEMP", "TMP")), "/tmp", "/var/tmp"]  # noqa: S108 - as `tempfile` looks
    place = next((place for place in places if place and os.access(place, os.W_OK | os.X_OK)), ".")
    return f"{place}/grainlike-{name}-{os.urandom(8).hex()}"


def remove(path: str) -> None:
    """Remove a directory and all that is in it, if it is there."""
    import shutil  # loads half a dozen compressors

    shutil.rmtree(path, ignore_errors=True)


def _new(root: str | None, name: str) -> Path:
    if root is None:
        import tempfile

        return Path(tempfile.mkdtemp(prefix=f"grainlike-{name}-"))
    path = Path(root, name)
    here = [folder(path.parent.parent, ANY_ACCESS, make=True)]
    try:
        for directory in (path.parent, path):
            here.append(folder_in(here[-1], directory, ANY_ACCESS, make=True))
    finally:
        for one in here:
            os.close(one)
    return path
