"""The number of the running job, as programs that a job starts find it in their environment."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

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


@pytest.mark.parametrize("spoil", [change, remove, hide_job])
def test_the_next_job_is_shown_whatever_one_has_made_of_its_number(spoil) -> None:
    show_job(3)
    spoil()
    show_job(4)
    assert inherited() == os.environ["GRAINLIKE_JOB"] == "4"
    show_job(5)
    assert inherited() == "5"


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
