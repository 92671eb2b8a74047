"""Jobs on several real workers at once: they run on all or none, and whatever breaks, nothing stays held."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from fault_calls import cores
from limits import LIMIT_S

from grainlike import (
    GVAR,
    Cores,
    Executor,
    Nodes,
    UnsatisfiableError,
    WorkerLostError,
    cancel,
    delayed,
    gather,
    info,
    start,
)

LISTEN = "tcp://127.0.0.1:0"

pytestmark = pytest.mark.asyncio


async def test_a_job_sees_all_its_nodes_and_so_do_the_programs_that_it_starts(start_worker):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN, local=Cores([0, 1])) as executor:

        @delayed
        def ranks():
            # What mpirun would do with it: read the file, start something for each slot.
            program = "import os; print(os.environ['GRAINLIKE_NODES'], open(os.environ['GRAINLIKE_HOSTFILE']).read())"
            said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
            return GVAR.instance, GVAR.res.cores, GVAR.job.nodes, said, os.environ["GRAINLIKE_HOSTFILE"]

        @delayed
        async def coroutine():
            await asyncio.sleep(0)
            return os.getpid(), [node.name for node in GVAR.job.nodes], os.environ["GRAINLIKE_NODES"]

        @delayed
        def alone():
            return GVAR.job.nodes, os.environ.get("GRAINLIKE_HOSTFILE"), os.environ.get("GRAINLIKE_NODES")

        for name in ("n1", "n2"):
            start_worker(executor.address, name=name, resources="cores=[0,1]")
        await executor.wait_for_workers(3)
        r_ = (ranks @ Nodes(3, each=Cores(2)))()
        instance, given, nodes, said, path = await r_
        assert instance == "local" == info(r_).worker
        assert given == (0, 1) == info(r_).allocation.cores
        assert sorted((node.name, node.host, node.allocation.cores) for node in nodes) == [
            ("local", "localhost", (0, 1)),
            ("n1", "127.0.0.1", (0, 1)),
            ("n2", "127.0.0.1", (0, 1)),
        ]
        assert nodes[0].name == "local"
        assert said.split("\n")[0] == "3 localhost slots=6"
        assert not Path(path).parent.exists()
        pid, names, count = await (coroutine @ Nodes(2, each=Cores(1)))()
        assert pid != os.getpid()
        assert (len(names), count) == (2, "2")
        assert await gather((alone @ Cores(1))() for _ in range(6)) == [((), None, None)] * 6


async def test_a_gang_waits_for_the_last_of_its_workers(gates, start_worker):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=LISTEN) as executor:
        visit = gate.visit

        @delayed
        def busy():
            visit("busy")

        for name in ("n1", "n2", "n3"):
            start_worker(executor.address, name=name)
        await executor.wait_for_workers(3)
        first_ = start((busy @ Cores(2))())
        await gate.arrival()
        gang_ = start((cores @ Nodes(3, each=Cores(2)))())
        said = await executor.explain(gang_)
        assert (said.reason, said.nearest, said.lacking, len(said.members)) == ("room", info(first_).worker, 1, 2)
        assert said.would_start_with == Nodes(2, each=Cores(2))
        gate.release_all()
        await gang_
        assert info(gang_).attempt == 1
        assert len(await gather((cores @ Cores(2))() for _ in range(3))) == 3


async def test_when_one_of_its_workers_is_killed_it_runs_again_on_others(gates, start_worker):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=LISTEN) as executor:
        visit = gate.visit

        @delayed
        def job():
            visit("gang", *(node.name for node in GVAR.job.nodes))
            return GVAR.job.attempt, [node.name for node in GVAR.job.nodes]

        workers = {name: start_worker(executor.address, name=name) for name in ("n1", "n2", "n3")}
        await executor.wait_for_workers(3)
        r_ = start((job @ Nodes(2, each=Cores(2)))())
        visitor = await gate.arrival()
        leader, member = visitor.rest
        os.kill(workers[member].pid, signal.SIGKILL)
        again = await gate.arrival()
        assert member not in again.rest
        assert again.pid != visitor.pid
        gate.release_all()
        attempt, names = await r_
        assert (attempt, sorted(names)) == (2, sorted({*workers} - {member}))
        assert leader in names
        assert len(await gather((cores @ Cores(2))() for _ in range(2))) == 2


async def test_a_leader_that_kills_its_process_every_time_is_given_up_and_all_slots_are_free(start_worker):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:

        @delayed
        def poison():
            os._exit(7)

        for name in ("n1", "n2"):
            start_worker(executor.address, name=name)
        await executor.wait_for_workers(2)
        with pytest.raises(WorkerLostError, match="3 times"):
            await (poison @ Nodes(2, each=Cores(2)))()
        assert len(await gather((cores @ Cores(2))() for _ in range(2))) == 2


async def test_cancelling_frees_the_slots_on_all_workers(gates, start_worker):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=LISTEN) as executor:
        visit = gate.visit

        @delayed
        def job():
            visit("gang")

        for name in ("n1", "n2", "n3"):
            start_worker(executor.address, name=name)
        await executor.wait_for_workers(3)
        r_ = start((job @ Nodes(3, each=Cores(2)))())
        waiting_ = start((job @ Nodes(2, each=Cores(2)))())
        await gate.arrival()
        cancel(waiting_)
        cancel(r_)
        found = await gather((cores @ Cores(2))() for _ in range(3))
        assert {cores for _, cores in found} == {(0, 1)}


async def test_a_worker_that_stops_in_good_order_costs_no_loss(gates, start_worker):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=LISTEN) as executor:
        visit = gate.visit

        @delayed
        def job():
            visit("gang", *(node.name for node in GVAR.job.nodes))
            return GVAR.job.attempt

        workers = {name: start_worker(executor.address, name=name) for name in ("n1", "n2", "n3")}
        await executor.wait_for_workers(3)
        r_ = start((job @ Nodes(2, each=Cores(2)))())
        _, member = (await gate.arrival()).rest
        os.kill(workers[member].pid, signal.SIGTERM)
        assert member not in (await gate.arrival()).rest
        gate.release_all()
        assert await r_ == 2


async def test_with_too_few_workers_it_is_refused_at_once_or_waits():
    async with Executor(local=Cores(2)):
        with pytest.raises(UnsatisfiableError, match=r"needs 2 workers that can give cores=1; there is 1"):
            await (cores @ Nodes(2, each=Cores(1)))()
    async with Executor(listen=LISTEN, local=Cores(2)) as executor:
        with anyio.move_on_after(0.1):
            await (cores @ Nodes(2, each=Cores(1)))()
        r_ = start((cores @ Nodes(2, each=Cores(1)))())
        assert "there is 1" in str(await executor.explain(r_))
