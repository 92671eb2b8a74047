"""Directories of jobs for what they need on disk while they run. Nothing is made before a job asks.

They lie below one directory for each process, and those below one of the keeper's: so what a job that was killed could
not remove is removed by its keeper, and what is left of a worker that was killed, too.

`GRAINLIKE_KEEP_SCRATCH` in the environment of the worker, or of the program for its own, keeps them: `failed` those of
jobs that raised or whose process was killed, `always` all of them.
"""

import os
from contextlib import suppress
from pathlib import Path

from grainlike._private import ANY_ACCESS, folder, folder_in

__all__ = [
    "KEEP",
    "KEEPS",
    "SHOWN",
    "JobDirectories",
    "directory_for",
    "keeps",
    "remove",
    "remove_empty",
    "warn_of_unknown_keep",
]

KEEP = "GRAINLIKE_KEEP_SCRATCH"
KEEPS = ("failed", "always")
SHOWN = "GRAINLIKE_SCRATCH"
"""Where programs that a job starts find its directory."""


class JobDirectories:
    """The directories of the jobs of one lease at a time, below `root`; without a root, each in the system's place for
    such things.

    With `shown`, the environment of this process names the one that was made last.
    """

    __slots__ = ("_root", "_shown", "made")

    def __init__(self, root: str | None, *, shown: bool = False) -> None:
        self._root = root
        self._shown = shown
        self.made: dict[str, Path] = {}
        """Those that there are, by the names of their jobs. Each job looks whether there are any."""

    def make(self, name: str) -> Path:
        """Return the directory of a job, made when it asks for the first time."""
        path = self.made.get(name)
        if path is None:
            path = self.made[name] = _new(self._root, name)
            if self._shown:
                os.environ[SHOWN] = str(path)
        return path

    def keep(self, name: str, error: BaseException) -> None:
        """Keep the directory of a job that failed with `error`, and say there where it is; if that was asked for."""
        if keeps() and (path := self.made.pop(name, None)) is not None:
            with suppress(Exception):  # the user's own class may refuse
                error.add_note(f"Its scratch directory is kept: {path} on {os.uname().nodename}")

    def hide(self) -> None:
        """Take the directory of the last job out of the environment."""
        if self._shown:
            os.environ.pop(SHOWN, None)

    def remove(self) -> None:
        """Remove them all with what is in them, unless they are to be kept; what cannot be removed stays."""
        if keeps() != "always":
            for path in self.made.values():
                remove(str(path))
        self.made.clear()


def directory_for(name: str) -> str:
    """Return the directory for those of a worker's jobs: a name that no other worker has, and nothing there yet."""
    places = [*map(os.environ.get, ("TMPDIR", "TEMP", "TMP")), "/tmp", "/var/tmp"]  # noqa: S108 - as `tempfile` looks
    place = next((place for place in places if place and os.access(place, os.W_OK | os.X_OK)), ".")
    return f"{place}/grainlike-{name}-{os.urandom(8).hex()}"


def keeps() -> str:
    """Return which directories are to be kept: one of `KEEPS`, or an empty text for none."""
    value = os.environ.get(KEEP, "")
    return value if value in KEEPS else ""


def warn_of_unknown_keep() -> None:
    """Say that a value of `GRAINLIKE_KEEP_SCRATCH` has no meaning, so that nothing is kept."""
    value = os.environ.get(KEEP, "")
    if value and value not in KEEPS:
        import logging  # runners do without

        words = "%s=%s keeps nothing: it is one of %s"
        logging.getLogger("grainlike.worker").warning(words, KEEP, value, ", ".join(KEEPS))


def remove_empty(path: str) -> None:
    """Remove a directory and those in it, as far as they hold nothing else."""
    for directory, _, _ in os.walk(path, topdown=False):
        with suppress(OSError):
            os.rmdir(directory)  # noqa: PTH106 - a text, as all of them here


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
