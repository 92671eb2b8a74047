"""`grainlike_bench.compare`: figures are of right answers, rounds are interleaved, and what fails says why."""

import asyncio
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import psutil
import pytest
from grainlike_bench.compare import (
    PARTS,
    SYSTEMS,
    WORKLOADS,
    Figures,
    Session,
    System,
    detail,
    facts,
    installed,
    measure,
    picture,
    table,
)
from grainlike_bench.compare._system import drive_blocking
from grainlike_bench.compare.systems._limit import LimitSession
from grainlike_bench.compare.systems._pool import FuturesSession
from limits import LIMIT_S

ROOT = Path(__file__).parents[3]
SIZES = {
    "throughput": 20,
    "leases": 5,
    "short": 4,
    "trips": 5,
    "tree": 7,
    "chain": 4,
    "bulk": 80_000,
    "large": 3_000_000,
}
FOUND = [
    Figures("pool", {"at once": [100.0, 300.0, 200.0], "p50": [10.0, 30.0, 20.0]}),
    Figures("grainlike", {"at once": [900.0, 1000.0, 1100.0], "p50": [5.0, 5.0, 5.0]}),
    Figures("dask", failure="no such thing"),
]


@pytest.mark.parametrize(
    "name",
    [
        "grainlike-default",
        "grainlike-embedded",
        "grainlike-embedded-async",
        "limit",
        "hops",
        "limit-uvloop",
        "hops-uvloop",
        "pool",
    ],
)
def test_every_workload_runs_on_what_is_always_there(name: str) -> None:
    (found,) = measure([name], SIZES, rounds=1, limit_s=LIMIT_S)
    assert found.failure is None
    parts = [part for part in PARTS if part != "daemon" or name == "grainlike-default"]
    details = {detail(workload, part) for workload in SIZES for part in parts}
    assert set(found.rounds) == details | {figure for workload in SIZES for figure in WORKLOADS[workload].units}
    assert all(values[0] > 0 for figure, values in found.rounds.items() if figure not in details)
    # Other processes may take less than the kernel counts, and none may have to wait.
    assert sum(found.rounds[detail(workload, PARTS[0])][0] for workload in SIZES) > 0
    assert all(found.rounds[figure][0] >= 0 for figure in details)


class Counting(Session):
    """Runs jobs in place and notes them, to see what the default chain and tree ask for."""

    def __init__(self) -> None:
        self.asked: list[list[object]] = []

    async def at_once(self, function, items):
        self.asked.append(list(items))
        return [function(item) for item in items]


def test_a_tree_and_a_chain_are_made_of_right_numbers_of_jobs() -> None:
    session = Counting()

    async def drive(session: Session) -> None:
        await WORKLOADS["tree"].measure(session, 15)
        await WORKLOADS["chain"].measure(session, 6)

    drive_blocking(drive, session)
    assert [len(items) for items in session.asked] == [8, 4, 2, 1] + [1] * 6


def test_a_wrong_answer_is_no_figure() -> None:
    class Wrong(Counting):
        async def at_once(self, function, items):
            return [function(item) + 1 for item in items]

    async def drive(session: Session) -> None:
        await WORKLOADS["throughput"].measure(session, 10)

    with pytest.raises(AssertionError, match="gave 55, not 45"):
        drive_blocking(drive, Wrong())


def test_rounds_are_interleaved_and_a_system_that_fails_has_no_more_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    found = measure(["pool", "nonsense"], {"trips": 3}, rounds=2, limit_s=LIMIT_S, progress=told.append)
    assert told == [
        "round 1 of 2: pool",
        "round 1 of 2: nonsense",
        "round 2 of 2: pool",
    ]
    assert len(found[0].rounds["p50"]) == 2
    assert found[1].failure == "KeyError: 'nonsense'"


def test_a_system_that_takes_too_long_is_given_up() -> None:
    trips = 100_000 + os.getpid()  # of nobody else who runs this test

    (found,) = measure(["pool"], {"trips": trips}, rounds=2, limit_s=1)
    assert found.failure == "not done after 1 s"
    left = [
        process for process in psutil.process_iter(["cmdline"]) if f"trips={trips}" in (process.info["cmdline"] or [])
    ]
    assert not left


def test_the_table_has_medians_spreads_and_ratios_with_the_best_first() -> None:
    lines = table(FOUND, {"throughput": 1, "trips": 1}).splitlines()
    at = lines.index("at once, jobs/s")
    assert lines[at + 1].split() == ["grainlike,", "TCP", "worker", "1000", "(900", "-", "1100)", "5.00", "x"]
    assert lines[at + 2].split() == ["ProcessPoolExecutor", "200", "(100", "-", "300)", "1.00", "x"]
    assert lines[lines.index("p50, µs") + 1].split()[0] == "grainlike,"
    assert lines[-1] == "dask: not measured: no such thing"


def test_json_keeps_every_round() -> None:
    found = json.loads(json.dumps(facts(FOUND, {"throughput": 1})))
    assert found["figures"]["pool"]["at once"] == [100.0, 300.0, 200.0]
    assert found["units"] == {"at once": "jobs/s", "CPU a job": "µs", "memory": "MB"}
    assert found["failures"] == {"dask": "no such thing"}


def test_the_picture_is_svg_with_a_longer_bar_for_more() -> None:
    root = ElementTree.fromstring(picture(FOUND, {"throughput": 1}))
    space = "{http://www.w3.org/2000/svg}"
    bars = [float(bar.get("width", "0")) for bar in root.findall(f"{space}rect")[1:]]
    assert len(bars) == 2
    assert bars[0] > bars[1]
    assert "1,000" in "".join(root.itertext())


def test_every_system_says_how_to_install_it() -> None:
    for name, system in SYSTEMS.items():
        assert issubclass(system, System)
        assert (system.module is None) == (system.package is None), name
    assert installed("pool")


def test_measuring_prints_figures_last_whatever_a_system_prints_before() -> None:
    command = [sys.executable, "-m", "grainlike_bench.compare", "pool", "trips=3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert set(json.loads(done.stdout.splitlines()[-1])) >= {"p50", "p99"}


@pytest.mark.asyncio
async def test_the_limit_fails_when_its_server_is_gone() -> None:
    """It once waited for ever, after its caller, too."""

    def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    session = LimitSession()
    await session.open(server.sockets[0].getsockname())
    with pytest.raises(ConnectionError, match="the other process is gone"):
        await session.one(abs, -1)
    server.close()


CHILDREN = """
import subprocess, sys
from grainlike_bench.compare import Spent
from grainlike_bench.compare._usage import cpu_seconds, memory_bytes

before = cpu_seconds(), memory_bytes()
script = '''
import select
input()
data = b"x" * 50_000_000; sum(i * i for i in range(3_000_000))
for _ in range(200): select.select([], [], [], 1e-4)  # some may be over before they have slept
print(flush=True)
input()
'''
with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
    spent, alone = Spent(process.pid), Spent(None)
    process.stdin.write(b"\\n")
    process.stdin.flush()
    process.stdout.readline()
    alone.stop(), spent.stop()
    assert memory_bytes() > before[1] + 50_000_000
    process.communicate(b"\\n")
assert cpu_seconds() > before[0] + 0.05  # of the one that has ended, too
each = spent.each(10)
assert each["daemon"] > 5_000, each  # microseconds: a tenth of what it has used
assert each["wake-ups"] > 5, each
assert abs(each["CPU"] - each["caller"] - each["daemon"] - each["others"]) < 1, each
other = alone.each(10)
assert "daemon" not in other
assert other["others"] > 5_000, other
"""


def test_cpu_time_memory_and_wake_ups_of_children_count() -> None:
    # In a session of its own: what the processes of this one have counts too, and may shrink meanwhile.
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", CHILDREN], check=True, env=environment, start_new_session=True)


def test_a_workload_of_values_that_a_system_cannot_carry_is_left_out() -> None:
    found: list[dict[str, float]] = []

    class Small(Counting):
        largest = 100

    async def drive(session: Session) -> None:
        found.extend([await WORKLOADS["bulk"].measure(session, size) for size in (80, 808)])

    drive_blocking(drive, Small())
    assert ["bulk" in figures for figures in found] == [True, False]
    assert not found[1]


def test_any_futures_pool_is_a_session() -> None:
    from concurrent.futures import ThreadPoolExecutor

    seen = []

    async def drive(session: Session) -> None:
        seen.append(await session.at_once(abs, [-1, -2]))
        seen.append(await session.one(abs, -3))

    with ThreadPoolExecutor(1) as pool:
        drive_blocking(drive, FuturesSession(pool))
    assert seen == [[1, 2], 3]
