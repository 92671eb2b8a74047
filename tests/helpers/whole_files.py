"""Files that another process waits for: they are there with all that is in them, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path | str, text: object) -> None:
    """Write `str(text)` to a file that has its name only when it is written; one that is there is replaced.

    Who waits until the file is there, as `until_files` does, would read an empty one after `Path.write_text`.
    """
    path = Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(str(text))
    beside.replace(path)
