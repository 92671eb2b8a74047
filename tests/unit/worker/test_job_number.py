"""The number of the running job, as programs that a job starts find it in their environment."""

import os
import subprocess
import sys
from collections.abc import Iterator
from unittest import mock

import pytest

from grainlike_worker.runner.common import _job_number
from grainlike_worker.runner.common._job_number import hide_job, show_job

LARGEST = 2**63 - 1


@pytest.fixture(autouse=True)
def no_number_afterwards() -> Iterator[None]:
    yield
    hide_job()
    os.unsetenv("GRAINLIKE_JOB")  # where nothing is left in `os.environ`


def inherited() -> str:
    """Return what a program finds that inherits the C library's environment: no copy of `os.environ`."""
    return subprocess.run(["/bin/sh", "-c", "echo $GRAINLIKE_JOB"], capture_output=True, text=True, check=True).stdout[
        :-1
    ]


@pytest.mark.parametrize("numbers", [(1, 2), (12345, 7), (7, LARGEST, 10)], ids=repr)
def test_programs_find_the_number_of_the_last_job_that_began(numbers: tuple[int, ...]) -> None:
    for number in numbers:
        show_job(number)
        assert inherited() == os.environ["GRAINLIKE_JOB"] == str(number)


def change() -> None:
    os.environ["GRAINLIKE_JOB"] = "changed"


def remove() -> None:
    del os.environ["GRAINLIKE_JOB"]


def enter_again() -> None:
    with mock.patch.dict(os.environ, {"OTHER": "1"}):
        pass
    saved = dict(os.environ)
    os.environ.clear()
    os.environ.update(saved)


@pytest.mark.parametrize("spoil", [change, remove, hide_job, enter_again])
@pytest.mark.parametrize("first", [3, 9, 10, 12345])
def test_the_next_job_is_shown_whatever_one_has_made_of_its_number(first: int, spoil) -> None:
    show_job(first)
    spoil()
    show_job(first + 1)
    assert inherited() == os.environ["GRAINLIKE_JOB"] == str(first + 1)
    show_job(first + 2)
    assert inherited() == str(first + 2)


def test_without_a_way_to_own_the_entry_the_c_library_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are Pythons without `ctypes`."""
    monkeypatch.setitem(sys.modules, "ctypes", None)
    entry = _job_number._Entry()
    for number in (1, 2):
        entry.show(number)
        assert inherited() == os.environ["GRAINLIKE_JOB"] == str(number)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the C library keeps the entry")
def test_the_c_library_is_given_no_copy_of_each_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("it keeps each value for good")

    show_job(1)
    monkeypatch.setattr(os, "putenv", refused)
    for number in range(2, 10):
        show_job(number)
    hide_job()
    show_job(11)
    monkeypatch.undo()
    assert inherited() == "11"
