"""Copies of values at URLs: bad places, what was written when it fails, and what is read."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import url2pathname

import numpy as np
import pytest

from grainlike.calls import UrlCopy, check_url, read_copy, unescaped, write_copy
from grainlike.errors import SerializationError

fsspec = pytest.importorskip("fsspec")
local = pytest.importorskip("fsspec.implementations.local")


@contextmanager
def no_root() -> Iterator[None]:
    """Let access be checked as for another user, if root runs the tests, who may write anywhere."""
    real = os.getresuid()
    if real[0] == 0:
        os.setresuid(-1, 65534, -1)
    try:
        yield
    finally:
        os.setresuid(*real)


class FullDisk(local.LocalFileSystem):  # type: ignore[misc]
    """A local file system with room for one write."""

    protocol = "fulldisk"

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        file = super().open(path, mode, **options)
        writes = iter([file.write])

        def write(data: Any) -> Any:
            for first in writes:
                return first(data)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        file.write = write
        return file


class ReadOnly(local.LocalFileSystem):  # type: ignore[misc]
    """A file system of which one only reads."""

    protocol = "readonly"

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        raise NotImplementedError("nothing is written here")


def test_what_was_written_is_read(tmp_path: Path) -> None:
    value = {"a": np.arange(1000.0), "b": [b"x" * 100_000, "text"], "c": None}
    copy = write_copy(value, (tmp_path / "deep" / "run7").as_uri() + "/")
    again = read_copy(copy)
    assert np.array_equal(again["a"], value["a"])
    assert (again["b"], again["c"]) == (value["b"], None)
    again["a"][0] = 5  # it is the job's own
    assert read_copy(astuple(copy))["b"] == value["b"]  # as jobs have it
    file = Path(fsspec.core.url_to_fs(copy.url)[1]).stat()
    assert (file.st_size, file.st_mode & 0o777) == (copy.size, 0o600)


@pytest.mark.parametrize(
    "name", ["run 7", "100%", "a%20b", "%25", "#1?x=[*]&y", "\N{GREEK SMALL LETTER MU}m", "new\nline", "~"]
)
def test_a_path_is_found_by_its_url(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    url = unescaped(place.as_uri())
    assert url == f"file://{place}" == f"file://{url2pathname(place.as_uri().removeprefix('file://'))}"
    copy = write_copy(b"x", url)
    (path,) = place.iterdir()
    assert copy.url == f"file://{path}"
    assert read_copy(copy) == b"x"


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("s3://bucket/a%20b", "s3://bucket/a%20b"),
        ("local:///a%20b", "local:///a%20b"),
        ("simplecache::file:///a%20b%2Fc", "simplecache::file:///a b/c"),
        ("file:///a b", "file:///a b"),
        ("file:///100%/%zz%4", "file:///100%/%zz%4"),
    ],
)
def test_escapes_of_files_alone_are_understood(url: str, plain: str) -> None:
    assert unescaped(url) == plain


@pytest.mark.parametrize(
    ("url", "words"),
    [("file:///a%FF", "is no UTF-8"), ("file:///a\udcff", "is no UTF-8"), ("file:///a%3A%3Ab", "has '::'")],
)
def test_paths_of_which_fsspec_would_make_others_are_refused(url: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        unescaped(url)


def test_a_copy_of_before_escapes_were_understood_is_read_where_it_is(tmp_path: Path) -> None:
    place = tmp_path / "a%20b"
    copy = write_copy(b"x", f"file://{place}")
    assert copy.url.startswith(f"file://{place}/")
    assert len(list(place.iterdir())) == 1
    assert read_copy(astuple(copy)) == b"x"
    assert list(tmp_path.iterdir()) == [place]


def test_names_are_drawn_by_chance(tmp_path: Path) -> None:
    first, second = (write_copy(b"same", tmp_path.as_uri()) for _ in range(2))
    assert first.url != second.url
    assert first.digest == second.digest
    assert len(first.url.rpartition("/")[2]) == 32


@pytest.mark.parametrize(
    "harm",
    [
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
        lambda data: b"",
    ],
    ids=["short", "long", "changed", "empty"],
)
def test_what_is_not_what_was_written_is_not_unpickled(tmp_path: Path, harm: Any) -> None:
    copy = write_copy(b"x" * 1000, tmp_path.as_uri())
    (path,) = tmp_path.iterdir()
    path.write_bytes(harm(path.read_bytes()))
    with pytest.raises(SerializationError, match="is damaged"):
        read_copy(copy)


def test_a_copy_that_is_gone_is_an_error_that_names_it(tmp_path: Path) -> None:
    copy = write_copy(b"x", tmp_path.as_uri())
    (path,) = tmp_path.iterdir()
    path.unlink()
    with pytest.raises(FileNotFoundError, match=f"the copy {copy.url} cannot be read"):
        read_copy(copy)


def test_errors_name_what_made_the_value_and_what_follows(tmp_path: Path) -> None:
    copy = write_copy(b"x", tmp_path.as_uri(), "train")
    (path,) = tmp_path.iterdir()
    path.write_bytes(b"y")
    with pytest.raises(SerializationError, match=f"^the copy of the value of train at {copy.url} is damaged"):
        read_copy(copy)
    with pytest.raises(OSError, match=r"a copy of the value of train cannot be .*; the value stays as it is$"):
        write_copy(b"x", path.as_uri(), "train")


def test_a_directory_without_rights_is_named_with_the_reason() -> None:
    with TemporaryDirectory(dir="/tmp") as folder, no_root():
        place = Path(folder) / "closed"
        with pytest.raises(
            PermissionError, match=rf"a copy cannot be written to {place.as_uri()} .*: Permission denied"
        ):
            write_copy(b"x", place.as_uri())


def test_of_a_copy_for_which_there_is_no_room_nothing_is_left(tmp_path: Path) -> None:
    fsspec.register_implementation("fulldisk", FullDisk, clobber=True)
    with pytest.raises(OSError, match="No space left on device") as full:
        write_copy(b"x" * 1_000_000, f"fulldisk://{tmp_path}")
    assert full.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())


def test_what_a_file_system_raises_of_its_own_is_told_as_an_error_of_writing() -> None:
    fsspec.register_implementation("readonly", ReadOnly, clobber=True)
    with pytest.raises(
        OSError, match=r"cannot be written to readonly:///x .*: NotImplementedError: nothing is written"
    ):
        write_copy(b"x", "readonly:///x")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("/scratch/run7", "takes a URL such as"),
        ("file://run7/a", "has a path from the root"),
        ("local://run7", "has a path from the root"),
        ("", "takes a URL such as"),
        ("memory://run7", "in the memory of one process"),
        ("simplecache::memory://run7", "in the memory of one process"),
        ("dir://run7", "dir://run7 does not say which file system has the files: replicate takes the URL of the place"),
        ("nowhere://run7", "fsspec knows no scheme 'nowhere', of nowhere://run7"),
    ],
)
def test_places_that_cannot_last_are_refused(url: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_url(url)


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a URL as text, not PosixPath"):
        check_url(tmp_path)  # type: ignore[arg-type]


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "fsspec"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fsspec", None)  # as where it is not installed
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'grainlike\[fsspec\]'"):
        check_url("file:///x")
    with pytest.raises(ModuleNotFoundError, match="grainlike"):
        read_copy(UrlCopy("file:///x", 1, b""))


def test_what_a_scheme_needs_and_lacks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = {"class": "no_such_package_here.Files", "err": "Install no-such-package"}
    monkeypatch.setitem(import_module("fsspec.registry").known_implementations, "lacking", lacking)
    with pytest.raises(ModuleNotFoundError, match=r"lacking://x needs a package .*: Install no-such-package"):
        check_url("lacking://x")
