"""Memory that a runner shares with those who watch it: one page of numbers, in a file that no other can open."""

import mmap
import os
import sys
from typing import ClassVar, Generic, Literal, Self, TypeVar, cast

__all__ = ["Page", "anonymous_file"]

Number = TypeVar("Number")


class Page(Generic[Number]):
    """Made by the worker (`create`), mapped by others from its descriptor (`attach`). Each closes its own.

    A kind of page says what the `words` on it are, and what the system calls its file.
    """

    __slots__ = ("_page", "fd", "words")

    typecode: ClassVar[Literal["q", "d"]]
    label: ClassVar[str]
    size: ClassVar[int] = mmap.PAGESIZE
    """Bytes; memory is taken for those pages alone that are written."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._page = mmap.mmap(fd, self.size)
        self.words = cast("memoryview[Number]", memoryview(self._page).cast(self.typecode))

    @classmethod
    def create(cls) -> Self:
        """Make a new page; its descriptor is not inheritable."""
        fd = anonymous_file(cls.label)
        os.ftruncate(fd, cls.size)
        return cls(fd)

    @classmethod
    def attach(cls, fd: int) -> Self:
        """Map the page that another process made; the descriptor belongs to the result."""
        return cls(fd)

    def close(self) -> None:
        """Unmap the page and close the descriptor; the second time does nothing."""
        if self.fd >= 0:
            self.words.release()
            self._page.close()
            os.close(self.fd)
            self.fd = -1


def anonymous_file(name: str) -> int:
    """Return a descriptor of a file in memory that no other can open; on disk where the system has no such thing."""
    if sys.platform == "linux":
        return os.memfd_create(name)
    import tempfile

    fd, path = tempfile.mkstemp(prefix=f"{name}-")
    os.unlink(path)  # noqa: PTH108 - the descriptor is all that is needed
    return fd
