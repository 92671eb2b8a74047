"""Traces of bytes that move: between workers, to programs, and to a worker's disk."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from far import far_workers
from value_calls import LARGE, make, size_of
from waiting import until

from grainlike import Cores, Dag, Resource, connect, info, replicate, wait
from grainlike.cli import main
from grainlike.system import is_in_memory

pytestmark = pytest.mark.asyncio


def bytes_of(path: Path) -> Counter[tuple[str, str, str, str]]:
    """The bars of bytes in a trace: from whom, to whom, by which way, in which row of which worker."""
    events = json.loads(path.read_text())["traceEvents"]
    rows = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one.get("name") == "thread_name"}
    bars: list[dict[str, Any]] = [one for one in events if one.get("cat") == "bytes"]
    assert all(bar["args"]["bytes"] > LARGE for bar in bars)
    return Counter(
        (bar["args"].get("from", ""), bar["args"].get("to", ""), bar["args"]["way"], rows[bar["pid"], bar["tid"]])
        for bar in bars
    )


async def test_bytes_between_workers_to_the_program_and_to_a_client_are_in_the_trace(start_worker, tmp_path):
    async with far_workers(start_worker, "n1", "n2", record=True) as (executor, _):
        a_ = (make @ Cores(1))(LARGE)
        await replicate(a_, 2)
        (home, other) = ("n1", "n2") if info(a_).worker == "n1" else ("n2", "n1")
        assert len(await a_) == LARGE
        executor.write_trace(tmp_path / "trace.json")
        told = bytes_of(tmp_path / "trace.json")
        assert told == {
            (home, other, "direct", "bytes out"): 1,
            (home, other, "direct", "bytes in"): 1,
            (home, "this process", "fetched", "bytes out"): 1,
            (home, "this process", "fetched", "bytes in"): 1,
        }
        async with connect(executor.address):
            b_ = (make @ Cores(1))(LARGE)
            assert await (size_of @ Cores(1))(b_) == LARGE
            await b_
        executor.write_trace(tmp_path / "later.json")
        more = bytes_of(tmp_path / "later.json") - told
        assert len(more) == 2
        assert {way for _, _, way, _ in more} <= {"fetched", "mapped"}


async def test_bytes_written_to_disk_are_in_the_trace_that_a_head_gives_to_others(start_worker, tmp_path):
    if is_in_memory(tmp_path):
        pytest.skip("temporary files are in memory here")
    disk = tmp_path / "disk"
    disk.mkdir(mode=0o700)
    options = ("--store", str(LARGE + LARGE // 2), "--scratch", str(disk))
    async with far_workers(start_worker, "n1", more=options, record=True) as (executor, _):
        values = [(make @ Cores(1))(LARGE) for _ in range(3)]
        await wait(values)
        await until(lambda: all(row.spilled for row in executor.workers()))
        path = tmp_path / "trace.json"
        assert await asyncio.to_thread(main, ["trace", "--head", executor.address, "-o", str(path)]) == 0
        executor.write_trace(tmp_path / "own.json")
        assert ("", "", "spilled", "disk") in bytes_of(tmp_path / "own.json")
        assert bytes_of(path) == bytes_of(tmp_path / "own.json")


async def test_bytes_that_moved_in_a_run_of_a_named_graph_are_in_its_trace(start_worker, tmp_path):
    async with far_workers(start_worker, "n1", "n2", resources="cores=2 {name}=1"):
        for path in (tmp_path / "first.json", tmp_path / "second.json"):
            dag = Dag()
            dag.add("load", make, LARGE, request=Cores(1) & Resource("n1", 1))
            dag.add("use", size_of, dag["load"], request=Cores(1) & Resource("n2", 1))
            report = await dag.run(trace=path)
            assert report["use"].value == LARGE
            ends = ("n1", "n2", "direct")
            assert bytes_of(path) == {(*ends, "bytes out"): 1, (*ends, "bytes in"): 1}
