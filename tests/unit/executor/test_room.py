"""How much of one message a head takes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grainlike.system._limits import max_message_bytes

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.fixture
def proc(tmp_path: Path) -> str:
    """A process in a cgroup of both versions, as the kernel shows it."""
    for group in ("v2/user/session", "v1/jobs"):
        (tmp_path / group).mkdir(parents=True)
    for group in ("v2", "v2/user", "v2/user/session", "v1", "v1/jobs"):
        (tmp_path / group / "cgroup.procs").write_text("")
    (tmp_path / "cgroup").write_text("2:memory:/jobs\n1:cpu:/elsewhere\n0::/user/session\n")
    (tmp_path / "mountinfo").write_text(
        f"1 1 0:1 / {tmp_path / 'v2'} rw - cgroup2 none rw\n1 1 0:1 / {tmp_path / 'v1'} rw - cgroup none rw,memory\n"
    )
    return str(tmp_path)


def test_it_is_half_of_the_machine_where_no_cgroup_allows_less(tmp_path: Path) -> None:
    assert max_message_bytes(str(tmp_path)) == MACHINE // 2
    assert 0 < max_message_bytes() <= MACHINE // 2


def test_it_is_half_of_the_least_that_a_cgroup_allows(proc: str, tmp_path: Path) -> None:
    own = tmp_path / "v2/user/session"
    (own / "memory.max").write_text("max\n")
    assert max_message_bytes(proc) == MACHINE // 2
    (own / "memory.max").write_text("3000000\n")
    (own.parent / "memory.max").write_text("2000000\n")
    assert max_message_bytes(proc) == 1_000_000
    (tmp_path / "memory.max").write_text("10\n")
    (tmp_path / "v2/memory.max").write_text("600000\n")
    assert max_message_bytes(proc) == 300_000


def test_a_limit_of_the_first_version_counts_too(proc: str, tmp_path: Path) -> None:
    (tmp_path / "v1/jobs/memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert max_message_bytes(proc) == MACHINE // 2
    (tmp_path / "v1/jobs/memory.limit_in_bytes").write_text("4000000\n")
    assert max_message_bytes(proc) == 2_000_000
