"""Files of blocks: scripts and logs that only their owner may read. They are read in parts, here or by a shell
elsewhere.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from grainlike.dialects import TAIL_BYTES, CommandResult

__all__ = ["FilePart", "part_said", "read_end", "read_part", "shell_for_part", "sweep_blocks", "write_file"]

PART_BYTES = 2**18
"""Most bytes of a file that are read at a time; of a longer rest, the end is read."""

KEEP_S = 30 * 86400.0
"""Seconds for which the script and the log of a block are kept after the last write to them."""

_PART = re.compile(r"grainlike part (?P<start>\d{1,18}) (?P<end>\d{1,18})\n", re.ASCII)


@dataclass(frozen=True, slots=True)
class FilePart:
    """Part of a file of a block, between two positions in bytes.

    Attributes:
        text: the text between them.
        start: where the part begins: later than asked for if that was too far from the end of the file.
        end: where the part ends, and the next one begins.
        why: why there is no part; empty if there is one.
    """

    text: str = ""
    start: int = 0
    end: int = 0
    why: str = ""


def write_file(path: Path, text: str) -> None:
    """Write a file of a block, mode 0600, into its directory, mode 0700. Who reads it meanwhile has all of the old one.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as opened:
            opened.write(text)
        os.replace(beside, path)  # noqa: PTH105 - it is a name
    except BaseException:
        os.unlink(beside)  # noqa: PTH108
        raise


def read_end(path: Path) -> str | None:
    """Return the end of a file in which the reason of a failure is looked for; None without a file."""
    part = _read(path, 0, TAIL_BYTES)
    return None if part.why else part.text


def read_part(path: Path, start: int) -> FilePart:
    """Return a file from a position on; only its end if that is much."""
    return _read(path, start, PART_BYTES)


def _read(path: Path, start: int, most: int) -> FilePart:
    try:
        with path.open("rb") as opened:
            end = opened.seek(0, os.SEEK_END)
            begin = opened.seek(max(min(start, end), end - most))
            data = opened.read(end - begin)
    except OSError as error:
        return FilePart(why=f"{path}: {error.strerror}")
    return FilePart(data.decode("utf-8", "replace"), begin, begin + len(data))


def shell_for_part(path: str, start: int) -> str:
    """Return shell text that prints the result of `read_part`; `part_said` reads it."""
    file = shlex.quote(path)
    return f"""\
end=$(stat -c %s -- {file}) || exit
start={start}; [ $start -le $end ] || start=$end
[ $((end - start)) -le {PART_BYTES} ] || start=$((end - {PART_BYTES}))
echo grainlike part $start $end
tail -c +$((start + 1)) -- {file} | head -c $((end - start))
"""


def part_said(said: CommandResult) -> FilePart:
    """Return the part that a shell has printed, without the output of a profile before it."""
    found = _PART.search(said.stdout)
    if said.code != 0 or found is None:
        return FilePart(why=said.stderr.strip() or "no answer in time")
    return FilePart(said.stdout[found.end() :], int(found["start"]), int(found["end"]))


def sweep_blocks(state: Path, now: float | None = None) -> list[str]:
    """Remove the directories of blocks in which nothing was written for 30 days; return their names.

    Scripts and logs outlive their blocks, for people who look for the reason of a failure. Directories that cannot be
    removed are left.

    Args:
        state: the state directory, which has the directory `blocks`.
        now: seconds since 1970; by default the present.

    Example::

        sweep_blocks(state_directory())
    """
    late = (time.time() if now is None else now) - KEEP_S
    gone: list[str] = []
    for folder in sorted((state / "blocks").glob("gl*-*")):
        with suppress(OSError):
            written = max(path.lstat().st_mtime for path in (folder, *folder.iterdir()))
            if written < late and not folder.is_symlink():
                shutil.rmtree(folder)
                gone.append(folder.name)
    return gone
