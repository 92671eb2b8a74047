"""`head start --detach`: a head in the background, and what is told of the head that was the current one before."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from grainlike.cli._exits import OK, REFUSED
from grainlike.cli._words import escaped_line
from grainlike.net import current_folder, journal_left_behind

__all__ = ["start_detached", "tell_of"]

_LAST_LINES, _LAST_BYTES = 12, 16 * 1024
"""The most of a log that is shown of a head that could not start."""

_PROGRESS = re.compile(r"\d{4}-\d\d-\d\d [\d:,]+ \S+ (?:DEBUG|INFO) ")


def tell_of(before: Path | None, *, has_journal: bool) -> None:
    """Print how to reach the head that was the current one until now, and still runs; and, where this head has no
    journal, how one goes on that has left its journal.
    """
    if before is not None and before.exists() and before != current_folder():
        words = f"this is the current head now; the one before runs on, at --head {before / 'client.json'}"
        print(f"grainlike head: {words}", file=sys.stderr, flush=True)  # noqa: T201 - a command line speaks
    left = None if has_journal else journal_left_behind()
    if left is not None:
        how = f"`grainlike head stop` and `{left.command}`"
        lines = [
            "grainlike head: this head begins without jobs and sessions, as --journal was not given",
            f"  {left.head} kept its own in {left.directory}: if you miss them, {how}",
            "  go on with them; if they are of no more use, remove that folder, and this is not said again",
        ]
        print("\n".join(map(escaped_line, lines)), file=sys.stderr, flush=True)  # noqa: T201


def start_detached(arguments: list[str]) -> int:
    """Start `head start` with these arguments in a session of its own; return once it listens, or has failed to."""
    from grainlike.cli.heads._log import open_log  # a head in the foreground has none

    before = current_folder()
    try:
        handle, path = open_log()
    except OSError as error:
        print(f"grainlike head: {error}", file=sys.stderr)  # noqa: T201 - a command line speaks
        return REFUSED
    ours, theirs = os.pipe()
    command = ["-m", "grainlike", "head", "start", *arguments, "--ready", str(theirs), "--log-file", str(path)]
    with os.fdopen(handle, "ab") as log, os.fdopen(ours, "rb") as ready:
        process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[theirs],
            start_new_session=True,
        )
        os.close(theirs)
        said = ready.read().decode()
    if said:
        print(f"{said}; log in {path}", flush=True)  # noqa: T201 - a command line speaks
        tell_of(before, has_journal="--journal" in arguments)
        return OK
    code = process.wait()
    for line in _reasons(path):
        print(escaped_line(line), file=sys.stderr)  # noqa: T201
    print(f"grainlike head: it has ended, with exit code {code}; see {path}", file=sys.stderr)  # noqa: T201
    return code or REFUSED


def _reasons(log: Path) -> list[str]:
    """Return the last lines of the log of a head that has ended, without those that tell of its progress."""
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
        lines = file.read().decode(errors="backslashreplace").splitlines()
        return [line for line in lines if line.strip() and not _PROGRESS.match(line)][-_LAST_LINES:]
    return []
