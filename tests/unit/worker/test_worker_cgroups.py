"""Where a worker finds its cgroup, and what it does where cgroups are odd: always less, never a crash."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from grainlike.resources import parse
from grainlike.system._cgroup import Cgroup, own_cgroups
from grainlike.system._limits import cpu_limit, memory_limit, own_memory
from grainlike_worker.daemon._probe import offer_of_daemon, own_cores
from grainlike_worker.linux import _worker_cgroups
from grainlike_worker.linux._cgroup_memory import KernelLimit, was_out_of_memory
from grainlike_worker.linux._worker_cgroups import claimed_cgroups, memory_tier

UNIFIED = "35 25 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
HYBRID = (
    "30 25 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
    "31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    "32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)


@pytest.mark.parametrize(
    ("cgroup", "mounts", "found"),
    [
        ("0::/\n", UNIFIED, ["/sys/fs/cgroup"]),
        ("0::/user.slice/a.scope\n", UNIFIED, ["/sys/fs/cgroup/user.slice/a.scope"]),
        ("4:memory:/elsewhere\n0::/here\n", HYBRID, ["/sys/fs/cgroup/unified/here"]),
        ("0::/docker/ab/in\n", UNIFIED.replace(" / /sys", " /docker/ab /sys"), ["/sys/fs/cgroup/in"]),
        ("0::/docker/abc\n", UNIFIED.replace(" / /sys", " /docker/ab /sys"), []),
        ("0::/x\n", UNIFIED.replace("/sys/fs/cgroup", "/mnt/a\\040b"), ["/mnt/a b/x"]),
        ("0::/a\n", UNIFIED + UNIFIED.replace("/sys/fs/cgroup", "/other"), ["/sys/fs/cgroup/a", "/other/a"]),
        ("0::/../outside\n", UNIFIED, []),
        ("0::/gone (deleted)\n", UNIFIED, []),
        ("3:cpu:/only\n", HYBRID, []),
        ("", "", []),
    ],
)
def test_a_process_finds_its_own_cgroup(cgroup: str, mounts: str, found: list[str], tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text(cgroup)
    (tmp_path / "mountinfo").write_text(mounts)
    assert [own.path for own in own_cgroups(str(tmp_path))] == found


def test_a_process_that_is_moved_finds_its_cgroup_where_it_is_now(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(UNIFIED)
    for place in ("/a", "/b", "/a"):
        (tmp_path / "cgroup").write_text(f"0::{place}\n")
        assert [own.path for own in own_cgroups(str(tmp_path))] == [f"/sys/fs/cgroup{place}"]
    (tmp_path / "mountinfo").write_text(UNIFIED.replace("/sys/fs/cgroup", "/odd\x0bname"))
    assert [own.path for own in own_cgroups(str(tmp_path))] == ["/odd\x0bname/a"]


def test_where_there_is_no_proc_there_is_no_cgroup(tmp_path: Path) -> None:
    assert list(own_cgroups(str(tmp_path / "none"))) == []


# --- odd ones: a directory that only looks like a cgroup --------------------------------------------------------------


class Odd(Cgroup):
    """A directory where the kernel would show files; tests say which, and which it refuses to write."""

    __slots__ = ()
    refuses: tuple[str, ...] = ()
    kind = "domain"

    def __truediv__(self, name: str) -> "Odd":
        return type(self)(f"{self.path}/{name}")

    def above(self) -> "Odd":
        return type(self)(os.path.dirname(self.path))  # noqa: PTH120

    def make(self) -> None:
        if "mkdir" in self.refuses:
            raise PermissionError(13, "refused")
        super().make()

    def read(self, file: str) -> str:
        told = {"cgroup.type": self.kind, "cgroup.controllers": "cpu memory", "cgroup.subtree_control": ""}
        return told.get(file, "")

    def write(self, file: str, text: str) -> None:
        if file in self.refuses:
            raise OSError(16, "Device or resource busy")


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Odd]]:
    """The class of the only cgroup that the worker finds; in it nothing must be left."""

    class Here(Odd):
        __slots__ = ()

    home = tmp_path / "own"
    home.mkdir()
    (home / "cgroup.procs").touch()
    monkeypatch.setattr(_worker_cgroups, "own_cgroups", lambda: [Here(str(home))])
    yield Here
    assert [path.name for path in home.iterdir()] == ["cgroup.procs"]


def test_where_all_goes_well_the_kernel_keeps_memory(odd: type[Odd], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "grainlike.worker")
    with claimed_cgroups(move=True) as cgroups:
        assert cgroups is not None
        assert cgroups.limits
    (line,) = caplog.messages
    assert line.startswith("the kernel holds jobs to the memory that they ask for (jobs have cgroups with memory")
    assert memory_tier()[0] == "cgroup"


@pytest.mark.parametrize(
    ("refused", "kind", "words"),
    [
        (("mkdir",), "domain", "jobs have no cgroups: .*refused"),
        ((), "domain invalid", "jobs have no cgroups: .*'domain invalid'"),
        (("cgroup.subtree_control",), "domain", "without memory limits: .*busy"),
        (("cgroup.procs",), "domain", "without memory limits: .*busy"),
    ],
)
def test_what_goes_wrong_is_a_line_of_the_log_and_a_step_down(
    refused: tuple[str, ...], kind: str, words: str, odd: type[Odd], caplog: pytest.LogCaptureFixture
) -> None:
    odd.refuses, odd.kind = refused, kind
    caplog.set_level("INFO", "grainlike.worker")
    with claimed_cgroups(move=True) as cgroups:
        assert (cgroups is None) == ("no cgroups" in words)
        assert cgroups is None or not cgroups.limits
    (line,) = caplog.messages
    assert re.search(words, line)
    assert line.startswith("a watchdog holds jobs to the memory that they ask for, by four looks a second: nothing ")
    assert memory_tier()[0] == "watchdog"


def test_a_program_stays_where_it_was_started(odd: type[Odd]) -> None:
    with claimed_cgroups(move=False) as cgroups:
        assert cgroups is not None
        assert not cgroups.limits


def test_a_runner_that_can_have_no_cgroup_goes_on_without(odd: type[Odd], capsys: pytest.CaptureFixture[str]) -> None:
    with claimed_cgroups(move=True) as cgroups:
        assert cgroups is not None
        assert cgroups.enter() is None  # its files are not there to be written
    assert "a runner without a cgroup" in capsys.readouterr().err


def test_only_empty_cgroups_of_workers_that_are_gone_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = _worker_cgroups._name().rpartition(".")[0]
    here, _, started = own.rpartition(".")
    space = here.split(".")[1]
    names = {
        f"{own}.abcdef": True,
        f"{here}.{int(started) + 1}.abcdef": False,
        f"grainlike.{space}.4999999.17.abcdef": False,
        f"grainlike.{space}.4999999.17": True,
        f"grainlike.{int(space) + 1}.4999999.17.abcdef": True,  # of another namespace, where it may live
        "system.slice": True,
    }
    for name in names:
        (tmp_path / name / "jobs" / "runner-7").mkdir(parents=True)
    living = tmp_path / f"grainlike.{space}.4999998.17.abcdef"
    living.mkdir()
    monkeypatch.setattr(Cgroup, "is_populated", lambda group: group.path == str(living))
    _worker_cgroups._remove_leftovers(Cgroup(str(tmp_path)))
    assert {path.name for path in tmp_path.iterdir()} == {name for name, stays in names.items() if stays} | {
        living.name
    }


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def group(tmp_path: Path) -> Cgroup:
    """A cgroup that holds 50 MB, 20 of them clean pages of files."""
    (tmp_path / "memory.current").write_text("50000000\n")
    stat = "anon 1\nactive_file 15000000\ninactive_file 10000000\nfile_dirty 4000000\nfile_writeback 1000000\n"
    (tmp_path / "memory.stat").write_text(stat)
    (tmp_path / "memory.max").write_text("max\n")
    return Cgroup(str(tmp_path))


@pytest.mark.parametrize(("resident", "base"), [(10_000_000, 30_000_000), (40_000_000, 40_000_000)])
def test_a_limit_is_beyond_what_is_held_and_not_of_the_page_cache(group: Cgroup, resident: int, base: int) -> None:
    limit = KernelLimit(group.path)
    assert limit.set(resident, 1_000_001) == base
    assert int(group.read("memory.max")) == base + 245 * 4096
    assert limit.holds(base + 1_000_001)
    assert not limit.holds(base + 1_000_001 - 4096)
    limit.lift()
    assert group.read("memory.max").startswith("max")
    assert not limit.holds(base)


def test_a_limit_that_cannot_be_set_is_none(group: Cgroup) -> None:
    (Path(group.path) / "memory.stat").unlink()
    assert KernelLimit(group.path).set(1, 1) is None
    KernelLimit(f"{group.path}/gone").lift()


@pytest.mark.parametrize(
    ("events", "ours"),
    [("oom 1\noom_kill 1\n", True), ("oom 0\noom_kill 1\n", False), ("oom 2\noom_kill 0\n", False), ("", False)],
)
def test_only_the_end_at_its_own_limit_is_the_jobs_doing(group: Cgroup, events: str, ours: bool) -> None:
    (Path(group.path) / "memory.events").write_text(events)
    assert was_out_of_memory(group) == ours
    assert not was_out_of_memory(group / "gone")


# --- what cgroups allow -----------------------------------------------------------------------------------------------


def tree(place: Path, limits: dict[str, str]) -> None:
    """Files of cgroups below `place`; each cgroup on the way has its list of processes."""
    for name, text in limits.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for above in path.parents:
            if above.is_relative_to(place):
                (above / "cgroup.procs").touch()


@pytest.mark.parametrize(
    ("limits", "cores", "memory"),
    [
        ({"v2/a/b/cgroup.procs": ""}, None, None),
        ({"v2/a/b/cpu.max": "max 100000\n", "v2/a/b/memory.max": "max\n"}, None, None),
        ({"v2/a/b/cpu.max": "150000 100000\n", "v2/a/cpu.max": "400000 100000\n"}, 1.5, None),
        ({"v2/a/b/memory.max": "max\n", "v2/a/memory.max": "5000\n", "v2/memory.max": "9000\n"}, None, 5000),
        ({"v1/m/own/memory.limit_in_bytes": "7000\n", "v2/a/memory.max": "8000\n"}, None, 7000),
        ({"v1/c/x/cpu.cfs_quota_us": "50000\n", "v1/c/x/cpu.cfs_period_us": "100000\n"}, 0.5, None),
        ({"v1/c/x/cpu.cfs_quota_us": "-1\n", "v1/c/x/cpu.cfs_period_us": "100000\n"}, None, None),
        ({"v2/a/b/cpu.max": "nonsense\n", "v2/a/b/memory.max": "\n"}, None, None),
    ],
)
def test_the_least_that_any_cgroup_allows_counts(
    limits: dict[str, str], cores: float | None, memory: int | None, tmp_path: Path
) -> None:
    places = {"v2": "", "v1/c": "cpu,cpuacct", "v1/m": "memory"}
    for place in places:
        tree(
            tmp_path / place, {name[len(place) + 1 :]: text for name, text in limits.items() if name.startswith(place)}
        )
    (tmp_path / "cgroup").write_text("4:memory:/own\n3:cpu,cpuacct:/x\n0::/a/b\n")
    (tmp_path / "mountinfo").write_text(
        "".join(
            f"1 1 0:1 / {tmp_path / place} rw - {'cgroup' if options else 'cgroup2'} none rw,{options}\n"
            for place, options in places.items()
        )
    )
    assert cpu_limit(str(tmp_path)) == cores
    assert memory_limit(str(tmp_path)) == memory


def test_a_worker_that_is_told_nothing_offers_what_it_may_use() -> None:
    offer = offer_of_daemon(None)
    assert offer.cores == own_cores()
    assert 0 < int(offer.memory or 0) == own_memory()
    assert not offer_of_daemon(parse("cores=[0]")).memory
