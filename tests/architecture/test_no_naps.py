"""Tests wait for events: who looks again and again after a nap is named here, with the reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

MAY = {
    "helpers/waiting.py": "the one place that looks again, for what tells nobody",
    "integration/conftest.py": "watches the kernel's records after each test",
    "integration/faults/test_faults_timeouts.py": "jobs that never end",
    "integration/faults/weather.py": "a network that is slow",
    "helpers/enforced_calls.py": "a job that says again and again where it is",
    "helpers/gpu_calls.py": "jobs that wait for a file, in processes of their own",
    "gpu/gpu_device.py": "a driver's tool, which tells only when it is asked",
    "chaos/client_program.py": "a user's program, which dials again after a while",
    "launch/slurm_pools.py": "jobs that wait for a file, in processes of their own",
    "launch/slurm_here.py": "programs of Slurm's, which tell of nothing",
    "launch/fakes_here.py": "jobs that wait for a file, in processes of their own",
    "launch/fakes/fake_batchd.py": "sessions of processes, which tell nobody when they are empty; limits that change",
    "launch/fakes/fake_client.py": "a program that hangs as long as a file is there",
    "launch/fakes/fake_pbs_commands.py": "a program of its own that asks its server, as pbsdsh asks its daemon",
    "launch/grid_engine_here.py": "programs of Grid Engine's, which tell of nothing",
    "launch/ssh_pools.py": "jobs that wait for a file, in processes of their own",
    "launch/sshd_here.py": "an sshd that begins, which tells nobody",
    "virtual/virtual_program.py": "no time really passes",
}


def naps(source: str) -> Iterator[int]:
    """Lines of loops in which something sleeps, other than for a turn of the event loop."""
    if "sleep" not in source:  # to parse all files takes seconds
        return
    for loop in ast.walk(ast.parse(source)):
        if isinstance(loop, ast.While) and any(map(_is_nap, ast.walk(loop))):
            yield loop.lineno


def _is_nap(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    turn = bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
    return name == "sleep" and not turn


def test_only_who_has_a_reason_looks_again_after_a_nap() -> None:
    found = {
        str(path.relative_to(TESTS)): lines
        for path in TESTS.rglob("*.py")
        if path != Path(__file__) and (lines := list(naps(path.read_text())))
    }
    assert {path: lines for path, lines in found.items() if path not in MAY} == {}, "see tests/helpers/waiting.py"
    assert found.keys() == MAY.keys(), "who naps no more needs no reason"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("while not path.exists():\n    time.sleep(0.01)", [1]),
        ("async def f():\n    while busy():\n        if x:\n            await anyio.sleep(PAUSE_S)", [2]),
        ("while not done:\n    await asyncio.sleep(0)", []),
        ("for _ in range(3):\n    await asyncio.sleep(0)", []),
    ],
)
def test_a_nap_in_a_loop_is_seen(source: str, lines: list[int]) -> None:
    assert list(naps(source)) == lines
