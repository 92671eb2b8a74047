"""How much of one message a head takes."""

from __future__ import annotations

import os
from pathlib import Path

from grainlike.system._limits import max_message_bytes

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_it_is_half_of_the_machine_where_no_cgroup_allows_less(tmp_path: Path) -> None:
    assert max_message_bytes(tmp_path) == MACHINE // 2
    assert 0 < max_message_bytes() <= MACHINE // 2


def test_it_is_half_of_the_least_that_a_cgroup_allows(tmp_path: Path) -> None:
    own = tmp_path / "sys/fs/cgroup/user/session"
    own.mkdir(parents=True)
    process = tmp_path / "proc/self/cgroup"
    process.parent.mkdir(parents=True)
    process.write_text("1:cpu:/elsewhere\n0::/user/session\n")
    (own / "memory.max").write_text("max\n")
    assert max_message_bytes(tmp_path) == MACHINE // 2
    (own / "memory.max").write_text("3000000\n")
    (own.parent / "memory.max").write_text("2000000\n")
    assert max_message_bytes(tmp_path) == 1_000_000
    (tmp_path / "sys/fs/memory.max").write_text("10\n")
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("600000\n")
    assert max_message_bytes(tmp_path) == 300_000
