"""A file that is opened when work begins and written when it has ended: a path that is wrong costs no work."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["LateFile"]


class LateFile:
    """A text file at `path`, opened now; what is there stays until `write`. One that was made here and never written
    is removed again when the block ends.

    Raises:
        OSError: the file cannot be opened for writing, as its folder is missing, or it is a folder.

    Example::

        with LateFile("trace.json") as file:
            report = await hours()
            file.write(drawn(report))
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).absolute()
        self._handle: int | None = None
        self._made = False
        if not self._is_device():
            self._made = not self._path.exists()
            try:
                self._handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except FileNotFoundError:
                raise FileNotFoundError(f"{path}: there is no folder {self._path.parent}") from None

    def _is_device(self) -> bool:
        """Return True for a terminal or a pipe: to open it early may wait for a reader, and does not show whether the
        end can be written.
        """
        with suppress(OSError):
            mode = self._path.stat().st_mode
            return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
        return False

    def write(self, text: str) -> None:
        """Write the whole content, in place of what was there; into a new file if ours was moved away or removed.

        Raises:
            OSError: the file cannot be written.
        """
        self._made = False
        if self._handle is None or not self._is_there(self._handle):
            self._path.write_text(text, encoding="utf-8")
            return
        os.ftruncate(self._handle, 0)
        with open(self._handle, "w", encoding="utf-8", closefd=False) as file:
            file.write(text)

    def _is_there(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), self._path.stat())
        except OSError:
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            if self._made and self._is_there(self._handle):
                with suppress(OSError):
                    self._path.unlink()
            os.close(self._handle)
            self._handle = None
