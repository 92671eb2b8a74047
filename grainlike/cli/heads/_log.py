"""Logs of heads that run in the background: a file for each, which is rotated when it is long."""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from contextlib import suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from grainlike._private import ANY_ACCESS, create_in, folder
from grainlike.net import make_private_directory, state_directory

__all__ = ["HeadLog", "open_log"]

LONGEST = 10 * 1024 * 1024
"""Bytes after which a log is renamed, to `.1`, and a new one is begun."""

ASIDE = 3
"""Most renamed logs that are kept."""

LOGS = 20
"""Number of logs that stay; of heads that run, all do."""


def open_log() -> tuple[int, Path]:
    """Make the log of a head that is about to be started: a descriptor to write to, and the path. It is locked as
    long as a process has it open to write. The oldest logs of heads that have ended are removed.

    Raises:
        PermissionError: the state directory is another user's, or open to others.
        OSError: the file cannot be made.
    """
    state = state_directory()
    make_private_directory(state)
    logs = state / "logs"
    here = folder(logs, ANY_ACCESS, make=True)
    try:
        name = f"head-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}.log"
        handle = create_in(here, name)
    finally:
        os.close(here)
    fcntl.fcntl(handle, fcntl.F_SETFL, os.O_APPEND)
    _lock(handle)
    _sweep(logs)
    return handle, logs / name


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sweep(logs: Path) -> None:
    for path in sorted(logs.glob("head-*.log"))[:-LOGS]:
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if _lock(handle):
                    for one in logs.glob(f"{path.name}*"):
                        one.unlink()
            finally:
                os.close(handle)


class HeadLog(RotatingFileHandler):
    """Writes the log of this head, with all that the process writes to standard output and standard error."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=LONGEST, backupCount=ASIDE, encoding="utf-8", errors="backslashreplace")

    def _open(self) -> TextIOWrapper:
        """Return the file, which is ours alone; standard output and standard error go there from now on."""
        path = Path(self.baseFilename)
        if path.exists() and os.path.samestat(os.fstat(1), path.stat()):  # as we were started: it is locked already
            handle = os.dup(1)
        else:
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            _lock(handle)
            for standard in (1, 2):
                os.dup2(handle, standard)
        return TextIOWrapper(os.fdopen(handle, "ab"), encoding=self.encoding, errors=self.errors)
