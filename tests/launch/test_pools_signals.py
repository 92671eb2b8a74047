"""Blocks that others end: preemption, and signals to every process of a job."""

import asyncio
import os
import subprocess
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from slurm_pools import ended, opened, pool_row, slurm_pool, until_up
from waiting import until_files

from grainlike import GVAR, Cores, delayed, info, run_process, start

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("private_state", "often_listed")]


ROUNDS = int(os.environ.get("GRAINLIKE_TEST_ROUNDS", "1"))
"""How often each of four blocks has a signal: once by default, as a round takes a while; in `make test-long` five times
and with ten preemptions.
"""


async def test_blocks_that_others_end_are_replaced_and_never_pause_their_pool(slurm, submitted, gate, monkeypatch):
    monkeypatch.setattr("grainlike.fleet._sizing.BETWEEN_S", 0.1)
    async with opened(slurm_pool()) as executor:
        r_ = start(gate.job())
        times_ended = max(4, 2 * ROUNDS)  # more than the early deaths that pause a pool
        for times in range(1, times_ended + 1):
            await gate.until_started(attempts=times)
            (row,) = await until_up(executor, 1)
            slurm.say("scancel", row.native)
        await gate.until_started(attempts=times_ended + 1)
        gate.open()
        native = await r_
        assert [row.native for row in await until_up(executor, 1)] == [native]
        assert pool_row(executor).paused == ""
        assert len(submitted.all()) == times_ended + 1
        assert [row.label for row in ended(executor)] == [f"slurm-{times}" for times in range(1, times_ended + 1)]
        assert all(row.reason.startswith("CANCELLED") for row in ended(executor))


@delayed(retries=0)
def _plain(folder, name):
    """Wait for a program, and clean up."""
    with _noted(folder, name) as begun:
        if not _is_open(folder):
            subprocess.run(_waiting(begun), check=True)


@delayed(retries=0)
async def _with_program(folder, name):
    with _noted(folder, name) as begun:
        if not _is_open(folder):
            await run_process(_waiting(begun))


@delayed(retries=0)
async def _asleep(folder, name):
    with _noted(folder, name) as begun:
        if not _is_open(folder):
            begun.touch()
            await asyncio.sleep(3600)


def _is_open(folder):
    """Return True if no attempt is to wait any more."""
    return (Path(folder) / "open").exists()


def _waiting(begun):
    """Return a program that says that it runs, and waits: a signal before that would not find it."""
    return ["sh", "-c", ': >"$1"; exec sleep 3600', "sh", str(begun)]


@contextmanager
def _noted(folder, name):
    """Give the file which says that an attempt has begun to wait, and say by another that it has cleaned up."""
    attempt = f"{name}-{GVAR.job.attempt}"
    try:
        yield Path(folder) / f"begun-{attempt}"
    finally:
        (Path(folder) / f"cleaned-{attempt}").touch()


async def test_signals_to_all_of_a_job_let_every_job_clean_up_and_count_for_nothing(
    slurm, submitted, tmp_path, monkeypatch
):
    monkeypatch.setattr("grainlike.fleet._sizing.BETWEEN_S", 0.1)
    files = tmp_path / "files"
    files.mkdir()
    ways = [("--signal=TERM", "--full"), ("--full",), ("--signal=USR1", "--full"), ("--signal=USR2", "--full")]
    names = [f"{kind}{block}" for block in range(4) for kind in ("plain", "program", "asleep")]
    function = {"plain": _plain, "program": _with_program, "asleep": _asleep}

    def all_are(what, attempt):
        return all((files / f"{what}-{name}-{attempt}").exists() for name in names)

    async with opened(slurm_pool("cores=3", max=4)) as executor:
        jobs = [start((function[name[:-1]] @ Cores(1))(str(files), name)) for name in names]
        for attempt in range(1, ROUNDS + 1):
            await until_files(files, partial(all_are, "begun", attempt))
            rows = await until_up(executor, 4)
            for row, way in zip(rows, ways, strict=True):
                slurm.say("scancel", *way, row.native)
            if attempt == ROUNDS:
                (files / "open").touch()
            await until_files(files, partial(all_are, "cleaned", attempt))
        for job in jobs:
            await job
            assert info(job).attempt == ROUNDS + 1
        assert executor.report().failed == 0
        assert pool_row(executor).paused == ""
    assert len(submitted.all()) >= 4 * ROUNDS
