"""The units for systemd and the recipe for containers: systemd takes them, and what they start does what they say."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path

import pytest
from limits import LIMIT_S

from grainlike import Cores, connect, delayed

ROOT = Path(__file__).parents[3]
UNITS = {kind: ROOT / "worker" / "units" / f"grainlike-{kind}.service" for kind in ("head", "worker")}
RECIPE = ROOT / "worker" / "Containerfile"
PROGRAM = "%h/.local/bin/grainlike"


def unit(kind: str) -> RawConfigParser:
    """The parts of a unit file."""
    parser = RawConfigParser(strict=True)
    parser.optionxform = str
    parser.read_string(UNITS[kind].read_text())
    return parser


def started_by_unit(kind: str) -> list[str]:
    program, *arguments = unit(kind)["Service"]["ExecStart"].split()
    assert program == PROGRAM
    return arguments


def started_by_recipe(access: Path) -> list[str]:
    (line,) = (line for line in RECIPE.read_text().splitlines() if line.startswith("ENTRYPOINT "))
    program, *arguments = json.loads(line.removeprefix("ENTRYPOINT "))
    assert program == "grainlike"
    assert arguments[-1] == "/cluster/worker.json"
    return [*arguments[:-1], str(access)]


def run(arguments: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "grainlike", *arguments],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here to ask")
@pytest.mark.parametrize("kind", UNITS)
def test_systemd_takes_the_unit(kind: str, tmp_path: Path) -> None:
    program = tmp_path / PROGRAM.removeprefix("%h/")
    program.parent.mkdir(parents=True)
    program.symlink_to(sys.executable)
    # Ours are all the units there are: of those of other programs it reports what it does not like about this machine.
    for target in ("basic", "shutdown"):
        (tmp_path / f"{target}.target").write_text(f"[Unit]\nDescription={target}\n")
    found = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(UNITS[kind])],
        env={**os.environ, **dict.fromkeys(("HOME", "XDG_RUNTIME_DIR", "SYSTEMD_UNIT_PATH"), str(tmp_path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.parametrize("kind", UNITS)
def test_the_unit_leaves_the_end_to_the_program_and_does_not_repeat_what_cannot_succeed(kind: str) -> None:
    service = unit(kind)["Service"]
    assert service["KillMode"] == "mixed"
    assert service["Restart"] == "on-failure"
    # A worker exits with 3 when its head was killed, too: the next head is to have it.
    assert service["RestartPreventExitStatus"].split() == {"head": ["2", "3"], "worker": ["2"]}[kind]


@pytest.mark.asyncio
async def test_what_units_and_recipe_start_finds_each_other_works_and_ends(private_state: Path) -> None:
    """The workers are there first, and wait for the head."""
    commands = {
        "worker": started_by_unit("worker"),
        "container": started_by_recipe(private_state / "current" / "worker.json"),
        "head": started_by_unit("head"),
    }
    running = {name: run(arguments) for name, arguments in commands.items()}
    try:
        assert "head at tcp://" in await asyncio.to_thread(running["head"].stdout.readline)
        async with asyncio.timeout(LIMIT_S), connect() as executor:
            await executor.wait_for_workers(2)
            assert {worker.pid for worker in executor.workers()} == {
                running["worker"].pid,
                running["container"].pid,
            }
            assert await (delayed(sum) @ Cores(1))([1, 2]) == 3
        for name in ("worker", "container", "head"):
            running[name].send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(running[name].wait, LIMIT_S) == 0, name
    finally:
        for process in running.values():
            process.kill()
            process.communicate()
