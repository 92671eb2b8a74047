"""Whether launchers of MPI programs number the cores of a machine as its system does, from texts of its files."""

import pytest

from grainlike.subprocesses._core_numbers import counts_in_order

CPU = "/sys/devices/system/cpu"
PACKAGE, CACHE = "topology/package_cpus_list", "cache/index3/shared_cpu_list"


def machine(
    packages: list[str], *, online: str = "0-3", smt: str = "0", caches: list[str] | None = None
) -> dict[str, str]:
    """The files of a machine of four processors, one text for each processor."""
    files = {f"{CPU}/online": online, f"{CPU}/smt/active": smt, "/proc/self/cgroup": "0::/batch"}
    for name, texts in ((PACKAGE, packages), (CACHE, caches or [])):
        files |= {f"{CPU}/cpu{cpu}/{name}": text for cpu, text in enumerate(texts)}
    return files


def in_order(files: dict[str, str]) -> bool:
    def read(path: str) -> str:
        if path not in files:
            raise FileNotFoundError(path)
        return files[path]

    return counts_in_order(read)


ONE = machine(["0-3"] * 4)
TWO = machine(["0-1", "0-1", "2-3", "2-3"], caches=["0-1", "0-1", "2-3", "2-3"])
SINGLE = machine(["0"], online="0")


@pytest.mark.parametrize("files", [ONE, TWO, SINGLE])
def test_packages_in_a_row_are_numbered_alike(files: dict[str, str]) -> None:
    assert in_order(files)


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(machine(["0,2", "1,3", "0,2", "1,3"]), id="processors alternate between packages"),
        pytest.param(machine(["0-3"] * 4, caches=["0,2", "1,3", "0,2", "1,3"]), id="and between caches"),
        pytest.param(machine(["0-3"] * 4, smt="1"), id="two threads a core"),
        pytest.param(machine(["0-3"] * 4, online="0-2,5"), id="one is offline"),
        pytest.param(machine(["0-3"] * 4, online="1-3"), id="the first is offline"),
        pytest.param({}, id="nothing is known"),
        pytest.param({**ONE, f"{CPU}/cpu0/{PACKAGE}": "nonsense"}, id="nonsense"),
    ],
)
def test_anything_else_is_taken_for_another_order(files: dict[str, str]) -> None:
    assert not in_order(files)


@pytest.mark.parametrize(
    ("groups", "path"),
    [
        ("0::/batch", "/sys/fs/cgroup/batch/cpuset.cpus.effective"),
        ("3:cpu,cpuset:/job7\n0::/", "/sys/fs/cgroup/cpuset/job7/cpuset.effective_cpus"),
    ],
)
def test_a_cgroup_that_forbids_some_changes_the_numbers(groups: str, path: str) -> None:
    files = {**ONE, "/proc/self/cgroup": groups}
    assert in_order({**files, path: "0-3"})
    assert not in_order({**files, path: "2-3"})
