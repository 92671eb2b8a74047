"""Locks on core ids, between this process and another."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from limits import LIMIT_S

from grainlike.subprocesses import NoCoreLocks, choose_cores, open_core_locks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the locks are Linux's")

ROOT = Path(__file__).parents[3]

CHOOSER = """
import sys
from grainlike.subprocesses import choose_cores, open_core_locks
print("started", flush=True)
for line in sys.stdin:
    cores = choose_cores(range(4), int(line))
    locks = open_core_locks(cores)
    print(*cores, flush=True)
"""

OTHER = """
import sys
from grainlike.subprocesses import open_core_locks
locks = open_core_locks(range(8))
print("open", flush=True)
for line in sys.stdin:
    locks.hold(int(line, 2))
    print(f"{locks.others():b}", flush=True)
"""


class Other:
    """Another program, which offers cores 0 to 7 and uses those that it is told."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self._answer() == "open\n"

    def uses(self, cores: int) -> int:
        """Have it use just these cores; return those that it sees others use then."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{cores:b}\n")
        self.process.stdin.flush()
        return int(self._answer(), 2)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=LIMIT_S)

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def other() -> Iterator[Other]:
    program = Other()
    yield program
    program.end()


def test_the_cores_that_another_program_uses_are_seen_until_it_ends(other: Other) -> None:
    with closing(open_core_locks(range(8))) as locks:
        assert locks.others() == 0
        other.uses(0b1011)
        assert locks.others() == 0b1011
        other.uses(0b0110)
        assert locks.others() == 0b0110
        other.end()
        assert locks.others() == 0


def test_cores_that_are_not_offered_are_nobodys_business(other: Other) -> None:
    other.uses(0b1110_0000)
    with closing(open_core_locks([0, 5])) as locks:
        assert locks.others() & (1 << 0 | 1 << 5) == 1 << 5


def test_who_offers_the_same_cores_is_told_by_process(other: Other) -> None:
    with closing(open_core_locks([2, 7, 9])) as locks:
        assert locks.overlaps() == {other.process.pid: [2, 7]}
        other.end()
        assert locks.overlaps() == {}


def test_what_both_use_is_kept_by_who_came_first_and_the_rest_by_the_other(other: Other) -> None:
    other.uses(0b0010)
    with closing(open_core_locks(range(8))) as locks:
        locks.hold(0b0111)
        assert locks.others() == 0b0010
        other.uses(0b0000)
        with closing(open_core_locks(range(8))) as third:
            assert third.others() == 0b0111


def test_a_core_that_another_lets_go_of_later_is_seen_to_be_used_by_who_goes_on_with_it(other: Other) -> None:
    other.uses(0b0010)
    with closing(open_core_locks(range(8))) as locks:
        locks.hold(0b0111)
        assert other.uses(0b0000) == 0b0101, "core 1 was the other's when it was to be locked"
        assert locks.others() == 0
        assert other.uses(0b1000) == 0b0111
        locks.hold(0b0000)
        assert other.uses(0b1000) == 0


def test_a_core_that_two_workers_of_a_program_use_is_locked_until_the_last_ends(other: Other) -> None:
    other.uses(0b0001)
    with closing(open_core_locks(range(4))) as first, closing(open_core_locks(range(4))) as second:
        first.hold(0b0001)
        second.hold(0b0001)
        first.hold(0b0000)
        other.uses(0b0000)
        assert second.others() == 0
        assert other.uses(0b0000) == 0b0001
        second.hold(0b0000)
        other.uses(0b0001)
        assert first.others() == second.others() == 0b0001
        assert other.uses(0b0000) == 0, "what nobody uses any more is not locked at a look"


def test_two_workers_of_one_program_see_each_other_and_end_alone(other: Other) -> None:
    first, second = open_core_locks(range(4)), open_core_locks(range(4))
    first.hold(0b0001)
    second.hold(0b0011)
    assert (first.others(), second.others()) == (0b0011, 0b0001)
    first.close()
    assert second.others() == 0
    with closing(open_core_locks(range(8))) as third:
        assert third.others() == 0b0011
    second.close()


def test_nothing_stays_open_after_the_last(runtime: Path) -> None:
    before = {path.name for path in Path("/proc/self/fd").iterdir()}
    open_core_locks(range(2)).close()
    assert {path.name for path in Path("/proc/self/fd").iterdir()} == before
    assert (runtime / "grainlike").stat().st_mode & 0o777 == 0o700


def test_without_a_file_of_ones_own_everybody_does_as_if_alone(runtime: Path, other: Other) -> None:
    other.uses(1)
    file = runtime / "grainlike" / "cores"
    file.unlink()
    file.symlink_to("/dev/null")
    with closing(open_core_locks(range(8))) as locks:
        assert isinstance(locks, NoCoreLocks)
        locks.hold(1)
        assert (locks.others(), locks.overlaps()) == (0, {})


@pytest.mark.skipif(os.geteuid() != 0, reason="a file of another user's takes root to make")
def test_a_file_of_another_users_is_not_used(runtime: Path) -> None:
    (runtime / "grainlike").mkdir()
    (runtime / "grainlike" / "cores").touch()
    os.chown(runtime / "grainlike" / "cores", 12345, 12345)
    assert isinstance(open_core_locks([0]), NoCoreLocks)


def choosers(count: int) -> "list[subprocess.Popen[str]]":
    """Start programs that choose cores when they are told how many."""
    environment, command = {**os.environ, "PYTHONPATH": str(ROOT)}, [sys.executable, "-c", CHOOSER]
    programs = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(count)
    ]
    for program in programs:
        assert program.stdout is not None
        assert program.stdout.readline() == "started\n"
    return programs


def chosen(programs: "list[subprocess.Popen[str]]", cores: int) -> list[str]:
    """Have all programs choose so many cores, at the same moment; return what they took."""
    found = []
    for program in programs:
        assert program.stdin is not None
        program.stdin.write(f"{cores}\n")
        program.stdin.flush()
    for program in programs:
        assert program.stdout is not None
        found.append(program.stdout.readline().strip())
    return found


def test_programs_that_choose_at_once_take_different_cores_and_then_those_that_fewest_offer() -> None:
    programs = choosers(6)
    try:
        assert sorted(chosen(programs[:4], 1)) == ["0", "1", "2", "3"]
        assert sorted(chosen(programs[4:], 2)) == ["0 1", "2 3"]
    finally:
        for program in programs:
            program.kill()
            program.communicate(timeout=LIMIT_S)


def test_cores_that_are_in_use_are_chosen_last(other: Other) -> None:
    other.uses(0b0011)
    assert choose_cores(range(4), 1) == [2]
    assert choose_cores(range(4), 3) == [0, 2, 3]


def test_a_choice_without_a_worker_does_not_outlive_the_place_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert choose_cores(range(4), 1) == [0]
    (tmp_path / "later").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "later"))
    program = Other()
    try:
        program.uses(0b0001)
        with closing(open_core_locks(range(4))) as locks:
            assert locks.others() == 0b0001
    finally:
        program.end()


def test_workers_of_one_program_choose_different_cores() -> None:
    with closing(open_core_locks(choose_cores(range(4), 2))), closing(open_core_locks(choose_cores(range(4), 1))) as b:
        assert choose_cores(range(4), 1) == [3]
        assert b.overlaps() == {}


def test_without_a_file_for_locks_the_first_cores_are_chosen(runtime: Path) -> None:
    (runtime / "grainlike").write_text("no directory")
    assert choose_cores(range(4), 2) == [0, 1]
