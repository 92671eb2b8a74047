"""Copies of values at URLs of fsspec: one job writes a copy, another reads it, so no byte of it goes through the head.

A copy is one file below the URL, with a random name. Its bytes are those of a replica. Its description (`UrlCopy`) goes
from the job that wrote it through the program to jobs that read it. So bytes at the URL are unpickled only if they are,
bit for bit, those that were written.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from importlib import import_module
from secrets import token_hex
from typing import Any

from grainlike.context import GVAR
from grainlike.errors import SerializationError
from grainlike.payload import dump_value, load_value, replica_parts, replica_payload

__all__ = ["UrlCopy", "check_url", "read_copy", "unescaped", "write_copy"]

_PART_BYTES = 4 * 1024 * 1024
"""Most bytes that are read at once."""

_ONE_PROCESS = frozenset({"memory"})
"""File systems of fsspec whose files end with the process that wrote them."""

_INCOMPLETE = frozenset({"dir", "generic", "reference"})
"""File systems of fsspec that are views of others; a URL of theirs alone does not say of which."""


@dataclass(frozen=True)
class UrlCopy:
    """Description of a copy: its whole URL, its size in bytes, and a digest of these (BLAKE2b, 32 bytes). `of` is the
    function that made the value, for error messages; empty if that is unknown.
    """

    url: str
    size: int
    digest: bytes
    of: str = ""

    def __str__(self) -> str:
        return f"the copy of the value of {self.of} at {self.url}" if self.of else f"the copy {self.url}"


def check_url(url: str) -> None:
    """Raise unless copies can be kept below a URL, as far as the URL itself tells.

    Raises:
        TypeError: it is no text.
        ValueError: it is no URL, has a scheme that fsspec does not know, or one that lasts no longer than a process.
        ModuleNotFoundError: fsspec is missing here, or a package that it needs for this scheme.

    >>> check_url("/scratch/run7")
    Traceback (most recent call last):
    ValueError: replicate takes a URL such as s3://bucket/run7 or file:///shared/run7, not '/scratch/run7'
    """
    if not isinstance(url, str):
        raise TypeError(f"replicate takes a URL as text, not {type(url).__name__}")
    schemes = [step.partition("://")[0] for step in url.split("::")]
    if "://" not in url:
        raise ValueError(f"replicate takes a URL such as s3://bucket/run7 or file:///shared/run7, not {url!r}")
    if not _ONE_PROCESS.isdisjoint(schemes):
        raise ValueError(
            f"what is written to {url} is in the memory of one process, and ends with it: a lasting place is needed"
        )
    if schemes[-1] in _INCOMPLETE:
        raise ValueError(
            f"{url} does not say which file system has the files: replicate takes the URL of the place itself, such as "
            "s3://bucket/run7 or file:///shared/run7"
        )
    scheme, _, path = url.rpartition("::")[2].partition("://")
    if scheme in ("file", "local") and not path.startswith("/"):
        raise ValueError(f"a file of a URL has a path from the root, such as file:///shared/run7, not {url!r}")
    fsspec = _fsspec()
    for scheme in schemes:
        try:
            fsspec.get_filesystem_class(scheme)
        except ImportError as error:
            raise ModuleNotFoundError(
                f"{url} needs a package that is not installed: {error}", name=error.name
            ) from None
        except ValueError:
            raise ValueError(f"fsspec knows no scheme {scheme!r}, of {url}") from None


def unescaped(url: str) -> str:
    """Return a URL with the path of a file as it is on the disk, as fsspec takes it: without the percent-escapes that
    `Path.as_uri` makes. Only for a URL as a user writes it: in the result, a percent sign is one of the path.

    Raises:
        ValueError: the path is no UTF-8, or has the `::` by which fsspec chains file systems.

    >>> unescaped("file:///shared/run%207"), unescaped("s3://bucket/run%207")
    ('file:///shared/run 7', 's3://bucket/run%207')
    """
    steps = [_unescaped_step(step, url) for step in url.split("::")]
    return "::".join(steps)


def _unescaped_step(step: str, url: str) -> str:
    if not step.startswith("file://"):
        return step
    from urllib.parse import unquote_to_bytes  # jobs do without

    try:
        path = unquote_to_bytes(step).decode()
    except UnicodeError:
        raise ValueError(f"the path of {url!a} is no UTF-8: use another directory") from None
    if "::" in path:
        raise ValueError(f"the path of {url} has '::', by which fsspec chains file systems: use another directory")
    return path


def write_copy(value: Any, url: str, of: str = "") -> UrlCopy:
    """Write a copy of a value that a call of `of` has made to a file below a URL, and return its description. It runs
    in a job. The URL is taken as it is (see `unescaped`): a journal may have one from before escapes were understood.

    If it fails, it removes the unfinished file, if that is possible.

    Raises:
        OSError: the copy cannot be written there; says where, from which worker, and why.
        As `check_url`: of this worker's fsspec.
    """
    check_url(url)
    parts = replica_parts(dump_value(value))
    whole = f"{url.rstrip('/')}/{token_hex(16)}"
    digest, size = blake2b(digest_size=32), 0
    what = f"a copy of the value of {of}" if of else "a copy"
    with _saying(f"{what} cannot be written to {url}", "; the value stays as it is"):
        system, path = _fsspec().core.url_to_fs(whole)
        try:
            system.makedirs(system._parent(path), exist_ok=True)
            if "file" in system.protocol:  # a file on a disk is for its owner alone, like all files of values
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with system.open(path, "wb") as file:
                for part in parts:
                    _write_all(file, part)
                    digest.update(part)
                    size += part.nbytes
        except BaseException:
            with suppress(Exception):
                system.rm_file(path)
            raise
    return UrlCopy(whole, size, digest.digest(), of)


def read_copy(copy: UrlCopy | tuple[str, int, bytes, str]) -> Any:
    """Return the value of a copy, or of one with these fields: plain data, of which the head can tell the URL. It runs
    in a job.

    Raises:
        OSError: the copy cannot be read.
        SerializationError: the file is not the one that was written: its size or its digest differs.
        As `check_url`: of this worker's fsspec.
    """
    if isinstance(copy, tuple):
        copy = UrlCopy(*copy)
    check_url(copy.url)
    data = memoryview(bytearray(copy.size))
    digest, at = blake2b(digest_size=32), 0
    with _saying(f"{copy} cannot be read"):
        system, path = _fsspec().core.url_to_fs(copy.url)
        with system.open(path, "rb", cache_type="none") as file:
            while at < copy.size and (some := file.read(min(_PART_BYTES, copy.size - at))):
                data[at : at + len(some)] = some
                digest.update(some)
                at += len(some)
            longer = bool(file.read(1))
    if at < copy.size or longer or digest.digest() != copy.digest:
        raise SerializationError(f"{copy} is damaged: it is not what was written")
    return load_value(replica_payload(data))


def _fsspec() -> Any:
    try:
        fsspec = import_module("fsspec")
        import_module("fsspec.core")
    except ModuleNotFoundError as error:
        if error.name != "fsspec":
            raise
        raise ModuleNotFoundError(
            "copies at URLs need a package that is not installed: pip install 'grainlike[fsspec]'", name="fsspec"
        ) from None
    return fsspec


def _write_all(file: Any, part: memoryview) -> None:
    """Write all bytes of a part, however few the file takes at once."""
    while part.nbytes:
        count = file.write(part[:_PART_BYTES])
        part = part[count:] if count is not None else part[_PART_BYTES:]


@contextmanager
def _saying(what: str, then: str = "") -> Iterator[None]:
    """Turn any error of a file system into an `OSError` that says what could not be done, at which worker, why, and
    what follows (`then`).
    """
    try:
        yield
    except Exception as error:
        number = error.errno if isinstance(error, OSError) and error.errno is not None else errno.EIO
        why = error.strerror if isinstance(error, OSError) and error.strerror else f"{type(error).__name__}: {error}"
        raise OSError(number, f"{what} (worker {GVAR.instance}): {why}{then}") from error
