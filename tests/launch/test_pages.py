"""Examples of README and the pages about launching, on a real Slurm whose nodes are as big as they say."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from limits import LIMIT_S
from pages import blocks
from prompts import ASYNCIO, at_prompt
from slurm_here import missing, temporary_slurm
from waiting import until_blocking

from grainlike.resources import parse_allocation

PAGES = ("README.md", "docs/launching/slurm.md")
ACCOUNTS = ("queue", "account", "native")
"""Keys whose values are a site's own."""


@pytest.fixture(scope="module")
def big_nodes():
    """A Slurm of two nodes of 64 CPUs and 250 GiB, which say so and are not."""
    if missing():
        pytest.fail(f"{', '.join(missing())} not installed: apt-get install slurm-wlm munge", pytrace=False)
    with temporary_slurm(nodes=2, cpus=64, memory_mb=250 * 1024) as started:
        yield started


@pytest.fixture(autouse=True)
def places(big_nodes, tmp_path, monkeypatch):
    """A working directory with a program, a state directory of a test's own, and what finds Slurm and our commands."""
    monkeypatch.chdir(tmp_path)
    Path("simulate").write_text('#!/bin/sh\necho "simulated $2 in $SLURM_JOB_ID"\n')
    Path("simulate").chmod(0o700)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SLURM_CONF", big_nodes.environment["SLURM_CONF"])
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def run(line: str) -> str:
    """Run a command; return what it printed."""
    done = subprocess.run(shlex.split(line), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, f"{line}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def head():
    """A head, which is stopped with its blocks."""
    run("grainlike head start --listen tcp://127.0.0.1:0 --detach")
    yield
    run("grainlike head stop")


@pytest.mark.parametrize("page", PAGES)
def test_three_commands_make_a_cluster(big_nodes, page):
    lines = next(block for block in blocks(page, "sh") if "grainlike up slurm" in block).splitlines()
    assert len(lines) == 3
    before = {number for number, _ in big_nodes.jobs()}
    try:
        printed = [run(line) for line in lines][-1]
        (number,) = {number for number, _ in big_nodes.jobs()} - before
        assert re.search(rf"^simulated 1 in {number}$", printed, re.MULTILINE), printed
        (worker,) = json.loads(run("grainlike ls --json"))
        assert worker["block"] == "slurm-1"
    finally:
        run("grainlike down")
        run("grainlike head stop")
    assert big_nodes.say("squeue", "-h") == ""


def test_the_settings_of_the_page_are_what_slurm_would_take(big_nodes):
    (text,) = blocks("docs/launching/slurm.md", "toml")
    lines = [line for line in text.splitlines() if line.partition(" =")[0] not in ACCOUNTS]
    lines = [line.replace("module load", "true") for line in lines]
    Path("grainlike.toml").write_text("\n".join(line.replace("nodes = 4", "nodes = 2") for line in lines))
    for name in tomllib.loads(text)["pool"]:
        assert "to start at" in run(f"grainlike up {name} --dry")


def test_a_script_by_hand_makes_a_worker_with_what_slurm_granted(big_nodes, head):
    (script,) = blocks("docs/launching/slurm.md", "bash")
    Path("worker.sh").write_text(script)
    number = run("sbatch --parsable worker.sh").strip()
    (worker,) = until_blocking(lambda: json.loads(run("grainlike ls --json")))
    offer = parse_allocation(worker["resources"])
    assert len(offer.cores) == min(16, len(os.sched_getaffinity(0)))  # never more than there are
    assert 0 < offer.memory <= 60 * 2**30
    assert 0 < offer.walltime < 4 * 3600
    big_nodes.say("scancel", "--full", number)
    assert big_nodes.end_of(number).startswith("CANCELLED")


def test_what_is_typed_at_the_prompt_says_what_the_page_says(tmp_path):
    (block,) = blocks("docs/launching.md", "pycon")
    typed, _, said = block.partition("\n")
    with at_prompt(ASYNCIO, tmp_path) as prompt:
        prompt.run("from grainlike.launch import Slurm")
        assert prompt.run(typed.removeprefix(">>> ")).endswith(said)
