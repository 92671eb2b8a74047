"""Pools of workers in processes of this machine: blocks come when jobs want them, and nothing is left of them."""

import json
import os
import socket
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from limits import LIMIT_S
from waiting import until, until_files

from grainlike import GVAR, Cores, Executor, LaunchError, Memory, WallTime, cancel, connect, delayed, gather, start
from grainlike.client import RefusedQueryError, call
from grainlike.dialects import Answer, Listing
from grainlike.head.durable import HeadDaemon
from grainlike.launch import BatchClient, Local, Submission
from grainlike.net import current_folder
from grainlike.wire import AskBlockFile, BlockFileIs

LISTEN = "tcp://127.0.0.1:0"

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def private_state(tmp_path, monkeypatch):
    """Access files and blocks of a test are its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(autouse=True)
def often_listed(monkeypatch):
    """Blocks are listed often: what follows from a listing is tried here, not how long one waits for it."""
    for name in ("YOUNG_PERIOD_S", "PERIOD_S", "LEAVING_PERIOD_S"):
        monkeypatch.setattr(f"grainlike.fleet._listing.{name}", 0.5)
    monkeypatch.setattr("grainlike.head.fleet._driver.LOOK_S", 0.1)


@pytest.fixture
def anyio_backend(request):
    """On asyncio, but for tests that say otherwise."""
    return getattr(request, "param", "asyncio")


BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"], indirect=True)


@delayed
def square(x):
    return x * x


@delayed
def where():
    return GVAR.res.cores, os.environ["GRAINLIKE_BLOCK"]


def lives(native):
    """Return True if the process of a block runs."""
    try:
        stat = Path("/proc", native.partition(":")[0], "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"  # it has ended, and waits for the machine's first process


async def natives(executor, count):
    """Return the ids of the blocks, by label, once so many are up."""
    await until(lambda: [row.state for row in executor.blocks()] == ["up"] * count)
    return {row.label: row.native for row in executor.blocks()}


async def until_joined(log):
    """Return once the worker of a block has written that it is in: the head knows it a moment before."""
    path = Path(log)
    await until_files(path.parent, lambda: "joined cluster" in path.read_text())


@BOTH
async def test_jobs_start_blocks_and_leaving_leaves_nothing(tmp_path):
    with anyio.fail_after(LIMIT_S):
        async with Executor(launch=Local("cores=1", max=2), listen=LISTEN) as executor:
            assert executor.blocks() == []
            assert await gather(*((square @ Cores(1))(x) for x in range(20))) == [x * x for x in range(20)]
            cores, label = await (where @ Cores(1))()
            assert label in {row.label for row in executor.blocks()}
            assert len(cores) == 1
            await until(lambda: {row.state for row in executor.blocks()} == {"up"})
            found = {row.label: row.native for row in executor.blocks()}
            assert 1 <= len(found) <= 2
            assert all(map(lives, found.values()))
            (pool,) = executor.pools()
            assert (pool.pool, pool.kind, pool.min, pool.max, pool.paused) == ("local", "local", 0, 2, "")
            assert json.loads(pool.settings) == {"kind": "local", "resources": "cores=1", "max": 2}
            await executor.pool("local").scale(0, 1)
            assert executor.pools()[0].max == 1
            with pytest.raises(LookupError, match="no pool 'cpu': local"):
                executor.pool("cpu")
        assert not any(map(lives, found.values()))


async def test_two_workers_of_one_machine_are_not_pinned_to_the_same_core():
    with anyio.fail_after(LIMIT_S):
        async with Executor(launch=Local("cores=1", min=2, max=2), listen=LISTEN) as executor:
            await executor.wait_for_workers(2)
            for worker in executor.workers():
                assert list(worker.resources.cores) == list(worker.logical) or os.cpu_count() == 1


async def test_a_block_is_on_the_host_of_its_worker_until_a_listing_tells_its_nodes(monkeypatch):
    may_list = anyio.Event()
    listing = BatchClient.listing

    async def late(self):
        await may_list.wait()
        return await listing(self)

    monkeypatch.setattr(BatchClient, "listing", late)
    with anyio.fail_after(LIMIT_S):
        async with Executor(launch=Local("cores=1", min=1), listen=LISTEN) as executor:
            await executor.wait_for_workers(1)
            await until(lambda: [row.state for row in executor.blocks()] == ["up"])
            nodes = [row.nodes for row in executor.blocks()]
            may_list.set()
            assert nodes == [socket.gethostname()]


async def test_an_idle_block_ends_and_a_job_brings_another():
    with anyio.fail_after(LIMIT_S):
        async with Executor(launch=Local("cores=1", idle=1), listen=LISTEN) as executor:
            assert await (square @ Cores(1))(3) == 9
            await until(lambda: executor.blocks() == [])
            assert await (square @ Cores(1))(4) == 16
            assert [row.label for row in executor.blocks()] == ["local-2"]


@BOTH
async def test_a_pool_over_a_connection_is_scaled_and_taken_down():
    with anyio.fail_after(LIMIT_S):
        async with HeadDaemon(LISTEN), connect() as executor:
            pool = await executor.up(Local("cores=1", min=1), name="cpu")
            found = await natives(executor, 1)
            assert list(found) == ["cpu-1"]
            await pool.scale(2)
            await natives(executor, 2)
            assert [(row.min, row.max, row.up) for row in executor.pools()] == [(2, 2, 2)]
            await pool.down()
            assert executor.blocks() == []
            assert not any(map(lives, found.values()))
            with pytest.raises(Exception, match="no pool"):
                await pool.scale(1)
            await pool.down()  # again: it is left so


async def test_a_job_runs_to_its_end_before_its_pool_is_down(tmp_path):
    go, began = tmp_path / "go", tmp_path / "began"

    @delayed
    async def waits():
        began.touch()
        await until(go.exists)
        return "done"

    with anyio.fail_after(LIMIT_S):
        async with Executor(listen=LISTEN, local=None) as executor:
            pool = await executor.up(Local("cores=1"))
            r_ = start((waits @ Cores(1))())
            await until(began.exists)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(pool.down)
                await until(lambda: [row.state for row in executor.blocks()] == ["leaving"])
                go.touch()
                assert await r_ == "done"
            assert executor.blocks() == []


async def test_a_broken_environment_pauses_the_pool_with_the_last_words():
    with anyio.fail_after(LIMIT_S):
        async with Executor(launch=Local("cores=1", python="/nonexistent/python"), listen=LISTEN) as executor:
            r_ = start((square @ Cores(1))(3))
            await until(lambda: executor.pools()[0].paused)
            assert "/nonexistent/python" in executor.pools()[0].paused
            assert "paused" in str(await executor.explain(r_))
            await executor.up(Local("cores=1"))
            assert await r_ == 9
            assert [row.label for row in executor.blocks()] == ["local-2"]


async def test_a_job_that_no_pool_can_serve_submits_nothing_and_is_explained(caplog):
    with anyio.fail_after(LIMIT_S):
        async with Executor(launch=Local("cores=1 memory=1Gi", walltime="0:30:00"), listen=LISTEN) as executor:
            wide = start((square @ (Cores(1) & Memory("64Gi")))(3))
            long = start((square @ (Cores(1) & WallTime("5:00:00")))(3))
            assert await (square @ Cores(1))(3) == 9
            told = str(await executor.explain(wide))
            assert "the nearest is local, short of memory (asked 64Gi, offers 1Gi)" in told
            assert "short of walltime (asked 5:00:00, leaves 0:2" in str(await executor.explain(long))
            assert {row.pool for row in executor.blocks()} == {"local"}
            warnings = [record.getMessage() for record in caplog.records if "waits for a worker" in record.getMessage()]
            assert len(warnings) == 2, "not of the job that a pool could serve"
            assert all("No pool could run it: the nearest is local, short of" in warning for warning in warnings)


@BOTH
async def test_cancelled_up_leaves_a_pool_that_goes_down(monkeypatch, tmp_path):
    submitted = BatchClient.submit

    async def slow(self, name, label):
        asked.set()
        await go.wait()
        return await submitted(self, name, label)

    monkeypatch.setattr(BatchClient, "submit", slow)
    asked, go = anyio.Event(), anyio.Event()
    with anyio.fail_after(LIMIT_S):
        async with Executor(listen=LISTEN, local=None) as executor:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(executor.up, Local("cores=1", min=1))
                await asked.wait()
                tasks.cancel_scope.cancel()
            assert [row.state for row in executor.blocks()] == ["leaving"]
            go.set()
            await until(lambda: executor.blocks() == [] and executor.pools() == [])


@pytest.mark.parametrize(
    ("launch", "error", "words"),
    [
        (3, TypeError, "launch= is a pool"),
        (["no-such-pool"], ValueError, "no-such-pool"),
        ([Local("cores=1"), 7], TypeError, "launch= is a pool"),
    ],
)
async def test_what_is_no_pool_is_refused_where_it_is_written(launch, error, words):
    with pytest.raises(error, match=words):
        Executor(launch=launch)


async def test_a_refused_first_block_raises_the_systems_words(tmp_path):
    blocked = tmp_path / "state" / "grainlike"
    blocked.mkdir(parents=True, mode=0o700)
    (blocked / "blocks").write_text("in the way")
    with anyio.fail_after(LIMIT_S):
        with pytest.raises(LaunchError, match="File exists"):
            async with Executor(launch=Local("cores=1", min=1), listen=LISTEN):
                pytest.fail("it has opened")
        async with Executor(listen=LISTEN, local=None) as executor:
            with pytest.raises(LaunchError, match="File exists") as caught:
                await executor.up(Local("cores=1", min=1), name="cpu")
            assert caught.value.command == ("bash", "-s")
            assert "File exists" in executor.pools()[0].paused


async def test_each_of_several_pools_has_its_first_block_when_the_executor_is_open(tmp_path):
    with anyio.fail_after(LIMIT_S):
        pools = [Local("cores=1", min=1), Local("cores=1 token=b", min=1)]
        async with Executor(launch=pools, listen=LISTEN) as executor:
            assert [row.label for row in executor.blocks()] == ["local-1", "local2-2"]


async def test_an_executor_to_which_nobody_connects_has_no_pools():
    async with Executor() as executor:
        with pytest.raises(ValueError, match="launch="):
            await executor.up(Local("cores=1"))
        assert executor.pools() == executor.blocks() == []


async def test_a_head_that_may_not_launch_refuses():
    with anyio.fail_after(LIMIT_S):
        async with HeadDaemon(LISTEN, no_launch=True), connect() as executor:
            with pytest.raises(Exception, match="--no-launch"):
                await executor.up(Local("cores=1", min=1))


async def test_the_next_head_has_the_same_blocks(tmp_path):
    journal = tmp_path / "journal"
    with anyio.fail_after(LIMIT_S):
        async with HeadDaemon(LISTEN, journal=journal) as daemon:
            async with connect() as executor:
                await executor.up(Local("cores=1", min=2, max=2), name="cpu")
                before = await natives(executor, 2)
            daemon.leaves = True
        assert all(map(lives, before.values()))
        async with HeadDaemon(LISTEN, journal=journal), connect() as executor:
            assert await natives(executor, 2) == before
            assert await (square @ Cores(1))(5) == 25
        assert not any(map(lives, before.values()))


async def test_the_commands(told):
    with anyio.fail_after(LIMIT_S):
        assert (await told("up", "local"))[0] == 3
        code, out, _ = await told("up", "local", "--resources", "cores=1", "--dry")
        assert (code, out.splitlines()[0]) == (0, "$ bash -s")
        assert "--resources cores=1" in out
        async with HeadDaemon(LISTEN):
            code, out, _ = await told("up", "local", "-n", "1", "--resources", "cores=1", "--wait", "--json")
            assert (code, json.loads(out)["label"]) == (0, "local-1")
            code, out, _ = await told("blocks", "--json")
            (row,) = json.loads(out)
            assert (row["state"], row["reason"], row["workers"]) == ("up", "", 1)
            assert lives(row["native"])
            await until_joined(row["log"])
            assert "joined cluster" in (await told("blocks", "log", "local-1"))[1]
            assert "--resources cores=1" in (await told("blocks", "script", "local-1"))[1]
            assert (await told("scale", "0..2"))[0] == 0
            (pool,) = json.loads((await told("pools", "--json"))[1])
            keys = "pool kind offer min max wanted pending up paused spent_core_hours"
            assert list(pool) == keys.split()
            assert (pool["min"], pool["max"]) == (0, 2)
            code, out, err = await told("up", "local", "--max", "3")
            assert "are pinned to none" in err
            assert (code, "is Local('cores=1', max=3) now" in out) == (0, True)
            assert (await told("pools", "pause", "local"))[0] == 0
            assert "paused: by hand" in (await told("pools"))[1]
            assert (await told("down"))[0] == 0
            assert not lives(row["native"])
            assert "no blocks" in (await told("blocks"))[1]
            assert "the pool is taken down" in (await told("blocks", "--all"))[1]


async def test_files_of_blocks_are_told_to_whom_does_not_see_them():
    with anyio.fail_after(LIMIT_S):
        async with HeadDaemon(LISTEN), connect() as executor, call() as caller:
            pool = await executor.up(Local("cores=1", min=1), name="cpu")
            await natives(executor, 1)
            log = anyio.Path(executor.blocks()[0].log)
            await until_joined(log)
            script = await caller.ask(AskBlockFile(0, "cpu-1", True, 0), BlockFileIs)
            assert script.text == await log.with_name("script").read_text()
            part = await caller.ask(AskBlockFile(0, "cpu-1", False, 5), BlockFileIs)
            assert (await log.read_text())[5 : part.end].startswith(part.text)
            assert "joined cluster" in part.text
            with pytest.raises(RefusedQueryError, match="no block cpu-9"):
                await caller.ask(AskBlockFile(0, "cpu-9", False, 0), BlockFileIs)
            await pool.down()
            again = await caller.ask(AskBlockFile(0, "cpu-1", False, 5), BlockFileIs)
            assert again.text.startswith(part.text), "also of a block that has ended"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("up", "slrm"), "did you mean slurm"),
        (("up", "slurm", "--walltime", "0:10:00", "--", "--nodes=3"), "write nodes instead"),
        (("up", "slurm"), "walltime"),
        (("up", "local", "-n", "2", "--max", "3"), "-n says both"),
        (("scale", "many"), "neither a number"),
        (("scale", "a", "b", "3"), "a pool and a number"),
    ],
)
async def test_wrong_usage_is_exit_code_2(words, said, told):
    code, _, err = await told(*words)
    assert code == 2
    assert said in " ".join(err.replace("│", " ").split())


async def test_a_limit_of_the_site_is_no_error_and_its_words_are_shown(monkeypatch):
    async def limited(self, name, label):
        return Submission(Answer("waits", words="QOSMaxSubmitJobPerUserLimit"), ("sbatch",), "")

    submitted = BatchClient.submit
    monkeypatch.setattr(BatchClient, "submit", limited)
    with anyio.fail_after(LIMIT_S):
        async with Executor(launch=Local("cores=1", min=1), listen=LISTEN) as executor:
            (row,) = executor.pools()
            assert row.paused == ""
            assert "QOSMaxSubmitJobPerUserLimit" in row.why
            monkeypatch.setattr(BatchClient, "submit", submitted)


SILENT_PROGRAM = """
import asyncio
from grainlike import Cores, Executor, delayed, gather
from grainlike.launch import Slurm

async def main():
    async with Executor(launch=Slurm("cores=1", walltime="0:05:00"), listen="tcp://127.0.0.1:0"):
        await gather((delayed(abs) @ Cores(1))(number) for number in range(5))

asyncio.run(main())
"""


async def test_a_program_without_logging_is_told_why_its_first_job_waits(tmp_path):
    with anyio.fail_after(LIMIT_S):
        without = {**os.environ, "PATH": str(tmp_path)}
        async with await anyio.open_process([sys.executable, "-c", SILENT_PROGRAM], env=without) as program:
            told = BufferedByteReceiveStream(program.stderr)
            line = (await told.receive_until(b"\n", 4096)).decode()
            program.kill()
    assert line.startswith("pool slurm submits nothing: slurm does not answer: ")
    assert "squeue" in line


async def test_a_batch_system_that_does_not_answer_is_warned_of_once_for_each_reason(monkeypatch, caplog):
    words = ["slurm_load_jobs error:\n Unable to contact (try 1)"]
    asked = []

    async def silent(self):
        asked.append(words[0])
        return Listing((), words[0])

    async def until_asked(times):
        await until(lambda: asked.count(words[0]) >= times)

    def told(module):
        return [record.getMessage() for record in caplog.records if record.module == module]

    monkeypatch.setattr(BatchClient, "listing", silent)
    with anyio.fail_after(LIMIT_S):
        async with HeadDaemon(LISTEN) as daemon, connect(daemon.address) as executor:
            await executor.up(Local("cores=1"), name="cpu")
            await until_asked(2)
            assert told("_pool_warnings") == [], "no job waits"
            said = "local does not answer: slurm_load_jobs error:\n Unable to contact (try 1)"
            await until(lambda: [row.why for row in executor.pools()] == [said])
            jobs = [start((square @ Cores(1))(number)) for number in range(3)]
            await until(lambda: told("_remote_jobs"))
            first = "pool cpu submits nothing: local does not answer: slurm_load_jobs error:; Unable to contact (try 1)"
            assert told("_pool_warnings") == told("_remote_jobs") == [first]
            assert "error:; Unable to contact" in str(await executor.explain(jobs[0]))
            session = next(iter(daemon._service._clients.here.values())).session
            sent = session.sent
            words[0] = "slurm_load_jobs error:\n Unable to contact (try 2)"
            await until_asked(2)
            words[0] = "Socket timed out"
            await until(lambda: len(told("_remote_jobs")) == 2)
            assert told("_pool_warnings")[1:] == ["pool cpu submits nothing: local does not answer: Socket timed out"]
            assert session.sent == sent, "a head that is started again would not know of messages that no input led to"
            for job in jobs:
                cancel(job)


async def test_a_head_that_may_not_launch_looks_after_the_blocks_of_the_head_before(tmp_path):
    journal = tmp_path / "journal"
    with anyio.fail_after(LIMIT_S):
        async with HeadDaemon(LISTEN, journal=journal) as daemon:
            async with connect() as executor:
                await executor.up(Local("cores=1", min=1))
                before = await natives(executor, 1)
            daemon.leaves = True
        async with HeadDaemon(LISTEN, journal=journal, no_launch=True), connect() as executor:
            assert await natives(executor, 1) == before
            with pytest.raises(Exception, match="--no-launch"):
                await executor.up(Local("cores=1", min=1), name="more")
        assert not any(map(lives, before.values()))


async def test_who_waits_for_the_end_of_a_head_that_fails_inside_is_told():
    async def fails():
        raise OSError("a defect")

    async def until_it_ends():
        async with HeadDaemon(LISTEN) as daemon:
            daemon._service._tasks.start_soon(fails)
            await daemon.stop.wait()

    with anyio.fail_after(LIMIT_S), pytest.raises(OSError, match="a defect"):
        await until_it_ends()


async def test_up_says_what_becomes_of_blocks_and_listings_stay_narrow(monkeypatch, tmp_path, told):
    folder = tmp_path / "config" / "grainlike"
    folder.mkdir(parents=True)
    (folder / "grainlike.toml").write_text(
        '[pool.bad]\nkind = "local"\nresources = "cores=1 memory=1Gi"\npython = "/no/python"\n'
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with anyio.fail_after(LIMIT_S):
        async with HeadDaemon(LISTEN):
            code, _, err = await told("up", "bad", "-n", "1", "--wait")
            assert code == 1
            assert "block bad-1 is ended" in err
            assert "pool bad: it is paused: block bad-1 ended before a worker joined" in err
            _, out, _ = await told("pools")
            assert "cores=1 memory=1Gi" in out
            table, _, below = out.partition("\nbad: paused: ")
            assert "/no/python" in below
            assert max(map(len, table.splitlines())) < 180
            await anyio.Path(json.loads((await told("blocks", "--json", "--all"))[1])[0]["log"]).unlink()
            code, _, err = await told("blocks", "log", "bad-1")
            assert (code, "No such file" in err) == (1, True)
            assert (await told("scale", "bad", "0"))[0] == 0
            assert "bad: paused" not in (await told("pools"))[1]
            assert (await told("up", "bad"))[0] == 0


async def test_a_program_with_pools_leaves_the_current_head_the_current_one():
    with anyio.fail_after(LIMIT_S):
        async with HeadDaemon(LISTEN):
            of_the_head = current_folder()
            async with Executor(launch=Local("cores=1"), listen=LISTEN):
                assert current_folder() == of_the_head
            assert current_folder() == of_the_head
        async with Executor(launch=Local("cores=1"), listen=LISTEN):
            assert current_folder() not in (None, of_the_head)
