"""A kind of resource new to the code, added by an entry in the table alone, on embedded and real workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio.lowlevel
import pytest
from limits import LIMIT_S

from grainlike import (
    GVAR,
    Cores,
    Executor,
    Request,
    ResourceSpecError,
    UnsatisfiableError,
    cancel,
    delayed,
    info,
    parse,
    start,
)
from grainlike.cli._words import amounts
from grainlike.resources import KINDS, Allocation, Ledger, ResourceKind, offer_of, parse_allocation, program_environment

ROOT = Path(__file__).parents[2]
ENTRY = """
from grainlike.resources import KINDS, ResourceKind
KINDS["disk"] = ResourceKind("disk", unit="bytes", whole="disk is in whole bytes", word="Disk")
"""


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enter two kinds in the table: an amount in bytes, and pieces with ids."""
    monkeypatch.setitem(KINDS, "disk", ResourceKind("disk", unit="bytes", whole="disk is in whole bytes", word="Disk"))
    monkeypatch.setitem(KINDS, "fpgas", ResourceKind("fpgas", whole="fpgas are whole", indexed=True))


@pytest.fixture
def start_worker() -> Iterator[Callable[[object, str], None]]:
    """Start real workers, with the same entry in their table."""
    started: list[subprocess.Popen[bytes]] = []

    def start_one(head: object, resources: str) -> None:
        code = f"{ENTRY}\nimport sys; from grainlike_worker.__main__ import main; sys.exit(main())"
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", code, "--resources", resources, "--name", "n1", "--head", str(head)],
                env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"},
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )

    yield start_one
    for process in started:
        process.terminate()
        process.wait(LIMIT_S)


def Disk(size: str | int) -> Request:
    return Request({"disk": size})


@delayed
def slots() -> str:
    return str(GVAR.res)


@delayed
async def endless() -> None:
    await anyio.sleep_forever()


def test_text_and_code_read_back_and_errors_are_those_of_any_kind() -> None:
    request = parse("cores=1 disk=8Gi")
    assert request == Cores(1) & Disk("8Gi")
    assert (str(request), repr(request)) == ("cores=1 disk=8589934592", 'Cores(1) & Disk("8Gi")')
    assert amounts(str(request)) == "cores=1 disk=8Gi"
    assert eval(repr(request), {"Cores": Cores, "Disk": Disk}) == request
    with pytest.raises(ResourceSpecError, match=r"disk=1\.5: disk is in whole bytes"):
        parse("disk=1500m")
    with pytest.raises(TypeError, match=r"\(fn @ Disk\('8Gi'\)\)\(x\)"):
        delayed(disk="8Gi")  # type: ignore[call-overload]


def test_pieces_with_ids_are_offered_granted_and_read_back() -> None:
    offer = offer_of(parse("cores=2 fpgas=2"), own_cores=(0, 1))
    assert str(offer) == "cores=[0,1] fpgas=[0,1]"
    ledger = Ledger(offer)
    first, second = (ledger.grant(parse("fpgas=1")) for _ in range(2))
    assert first is not None
    assert second is not None
    assert (str(first.allocation), str(second.allocation)) == ("fpgas=[0]", "fpgas=[1]")
    assert ledger.grant(parse("fpgas=1")) is None
    ledger.release(first)
    assert ledger.fits_now(parse("fpgas=1"))
    assert isinstance(eval(repr(first.allocation), {"parse": parse}), Allocation)
    with pytest.raises(ResourceSpecError, match="fpgas are counted"):
        parse("fpgas=1Ki")


def test_programs_of_a_job_find_it_in_their_environment() -> None:
    shown = program_environment(parse_allocation("cores=[0] disk=1Ki fpgas=[1]"), [0])
    assert (shown["GRAINLIKE_DISK"], shown["GRAINLIKE_FPGAS"], shown["GRAINLIKE_MEMORY"]) == ("1024", "1", None)


@pytest.mark.asyncio
async def test_jobs_of_an_embedded_executor_hold_it_wait_for_it_and_are_refused(tmp_path: Path) -> None:
    async with Executor(local=Cores(2) & Disk("8Gi"), record=True) as executor:
        with anyio.fail_after(LIMIT_S):
            first = start((endless @ (Cores(1) & Disk("6Gi")))())
            while info(first).state != "running":
                await anyio.lowlevel.checkpoint()
            assert str(info(first).allocation) == "cores=[0] disk=6442450944"
            second = start((slots @ (Cores(1) & Disk("4Gi")))())
            assert "disk" in str(await executor.explain(second))
            cancel(first)
            assert "disk=4294967296" in await second
            with pytest.raises(UnsatisfiableError, match=r"too little disk \(asked 9Gi, at most 8Gi\)"):
                await (slots @ Disk("9Gi"))()
            with pytest.raises(UnsatisfiableError, match=r"disks \(did you mean disk\?\)"):
                await (slots @ parse("disks=1"))()
        executor.write_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    held = [event["args"]["bytes"] for event in events if event["name"] == "disk held"]
    assert max(held) == 4 << 30
    assert held[-1] == 0


@pytest.mark.asyncio
async def test_a_worker_process_offers_it_and_its_jobs_hold_it(
    start_worker: Callable[[object, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    async with Executor(listen="tcp://127.0.0.1:0") as executor:
        with anyio.fail_after(LIMIT_S):
            start_worker(executor.address, "cores=[0] disk=8Gi")
            await executor.wait_for_workers(1)
            r_ = (slots @ (Cores(1) & Disk("6Gi")))()
            assert await r_ == "cores=[0] disk=6442450944"
            allocation = info(r_).allocation
            assert allocation is not None
            assert (allocation["disk"], info(r_).worker) == (6 << 30, "n1")
            r_ = start((slots @ Disk("9Gi"))())
            while "at most 8Gi" not in str(await executor.explain(r_)):
                await anyio.lowlevel.checkpoint()
            cancel(r_)
