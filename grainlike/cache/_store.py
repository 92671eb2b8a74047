"""Results of calls on disk: a file for each, found by function, version and arguments."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

import msgspec

from grainlike._private import WRITING, create_in, folder, folder_in, open_in
from grainlike.payload import Payload, dump_value, load_value
from grainlike.settings import read_settings

__all__ = ["DamagedError", "Key", "ResultStore", "StoredResult", "results_directory"]

_MAGIC = b"grainlike result 1\n"
_NEW = ".new-"
"""Prefix of the names of files that are being written."""

_LONGEST_NAME = 200
_HEADER_MOST = 1 << 20


class Key(NamedTuple):
    """Key of a result: the function as `module:name`, the version that its author gave it, and the digest of its
    arguments.
    """

    function: str
    version: str
    identity: bytes


class StoredResult(msgspec.Struct, frozen=True):
    """Metadata of a stored result. `created` is the wall clock's; `sizes` are of its parts, in bytes."""

    function: str
    version: str
    created: float
    sizes: list[int]
    digest: bytes
    python: str

    @property
    def size(self) -> int:
        """Bytes of the value."""
        return sum(self.sizes)


class DamagedError(Exception):
    """Raised when a file is not what was written."""


def results_directory() -> Path:
    """Return the directory of results: that of the settings, else `grainlike/results` in the user's cache directory.

    Raises:
        SettingsError: the settings are not right.
    """
    chosen = read_settings().get("cache", "directory")
    if chosen:
        return Path(chosen).expanduser().absolute()
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser().absolute() / "grainlike" / "results"


class ResultStore:
    """The results in one directory, which is made, for this user alone, when something is put into it.

    Files appear whole or not at all, so any number of programs may use one directory, on a shared file system too. To
    open a result runs code of its writer. So the directory, each folder in it and the file are refused where another
    user owns them, others can write to them, or they are symbolic links.

    Raises, in all that reads or writes:
        PermissionError: a file or directory is refused.
        OSError: the directory or a file cannot be read or written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def find(self, key: Key) -> tuple[StoredResult, object] | None:
        """Return the metadata and the value; None when it is not here. `DamagedError` for a file that is not whole."""
        path = self._path(key)
        try:
            with self._folder(path.parent) as there, _told(self.directory):
                handle = open_in(there, path, WRITING)
        except FileNotFoundError:
            return None
        with os.fdopen(handle, "rb") as file:
            data = file.read()
        kept, start = _head(data)
        parts = []
        for size in kept.sizes:
            parts.append(memoryview(bytearray(data[start : start + size])))
            start += size
        if start != len(data) or _digest(parts) != kept.digest:
            raise DamagedError("its content is not what was written")
        return kept, load_value(Payload(parts[0], tuple(parts[1:])), what="the kept result")

    def put(self, key: Key, value: object) -> None:
        """Keep a value. `SerializationError` when it has no bytes."""
        payload = dump_value(value, what="the result")
        parts = [memoryview(payload.data).cast("B"), *(memoryview(buffer).cast("B") for buffer in payload.buffers)]
        sizes = [part.nbytes for part in parts]
        python = "{}.{}.{}".format(*sys.version_info)
        kept = StoredResult(key.function, key.version, time.time(), sizes, _digest(parts), python)
        head = msgspec.msgpack.encode(kept)
        path = self._path(key)
        with self._folder(path.parent, make=True) as there:
            new = f"{_NEW}{secrets.token_hex(8)}"
            try:
                with os.fdopen(create_in(there, new), "wb") as file:
                    file.write(_MAGIC + len(head).to_bytes(4, "big") + head)
                    file.writelines(parts)
                os.replace(new, path.name, src_dir_fd=there, dst_dir_fd=there)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(new, dir_fd=there)
                raise

    def versions_with(self, key: Key) -> list[str]:
        """Return other versions of the function that have a result for these arguments."""
        path = self._path(key)
        with suppress(FileNotFoundError), self._folder(path.parents[1]) as there:
            names = os.listdir(there)  # noqa: PTH208 - of an open directory
            return sorted(unquote(one) for one in names if _exists(there, f"{one}/{path.name}"))
        return []

    def __iter__(self) -> Iterator[tuple[Path, StoredResult]]:
        """Iterate over what is stored, in no order; files that are not whole are left out."""
        for path in self._files():
            with suppress(FileNotFoundError, DamagedError), self._folder(path.parent) as there, _told(self.directory):
                if not path.name.startswith("."):
                    with os.fdopen(open_in(there, path, WRITING), "rb") as file:
                        yield path, _head(file.read(_HEADER_MOST))[0]

    def tidy(self, before: float) -> None:
        """Remove unfinished files of programs that died, older than this time by the wall clock."""
        for path in self._files():
            with suppress(FileNotFoundError):  # it is finished now, or gone
                if path.name.startswith(_NEW) and path.stat().st_mtime < before:
                    self.remove(path)

    def remove(self, path: Path) -> None:
        """Remove one, and the folders that it leaves empty."""
        with suppress(FileNotFoundError), self._folder(path.parent) as there:
            os.unlink(path.name, dir_fd=there)
        with suppress(OSError):
            path.parent.rmdir()
            path.parent.parent.rmdir()

    def _path(self, key: Key) -> Path:
        return self.directory / _folder(key.function) / _folder(key.version) / key.identity.hex()

    def _files(self) -> list[Path]:
        """Iterate over all files, finished or not."""
        with suppress(FileNotFoundError), self._folder(self.directory):
            patterns = ("*/*/[0-9a-f]*", f"*/*/{_NEW}*")
            return sorted(path for pattern in patterns for path in self.directory.glob(pattern))
        return []

    @contextmanager
    def _folder(self, path: Path, *, make: bool = False) -> Iterator[int]:
        """The directory, or one in it, open; each folder from there on is looked at by the descriptor that leads on."""
        with ExitStack() as opened:
            with _told(self.directory):
                at, here = self.directory, folder(self.directory, WRITING, make=make)
                opened.callback(os.close, here)
                for name in path.relative_to(self.directory).parts:
                    at /= name
                    here = folder_in(here, at, WRITING, make=make)
                    opened.callback(os.close, here)
            yield here


@contextmanager
def _told(directory: Path) -> Iterator[None]:
    """Add to errors about refused files why that matters, and what to do."""
    try:
        yield
    except PermissionError as error:
        if error.errno is not None:  # the system's own
            raise
        raise PermissionError(
            f"{error}; to open a result runs what its writer wrote. If nobody else wrote there: "
            f"chmod -R go-w {directory}; else set GRAINLIKE_CACHE__DIRECTORY to a directory of your own"
        ) from None


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _head(data: bytes) -> tuple[StoredResult, int]:
    """Return the metadata of a file, and the offset of its content."""
    start = len(_MAGIC) + 4
    if not data.startswith(_MAGIC) or len(data) < start:
        raise DamagedError("it is no result of ours")
    end = start + int.from_bytes(data[len(_MAGIC) : start], "big")
    try:
        return msgspec.msgpack.decode(data[start:end], type=StoredResult), end
    except msgspec.MsgspecError:
        raise DamagedError("its head is not what was written") from None


def _digest(parts: list[memoryview]) -> bytes:
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _folder(name: str) -> str:
    """Return a name as a folder: one that is too long is cut, and its digest distinguishes it from others."""
    quoted = quote(name, safe="").replace(".", "%2E") if name in (".", "..") else quote(name, safe="")
    if len(quoted) <= _LONGEST_NAME:
        return quoted
    return f"{quoted[:_LONGEST_NAME]}-{blake2b(name.encode(), digest_size=8).hexdigest()}"
