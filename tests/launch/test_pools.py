"""Pools of workers on a real Slurm: how many blocks they have, what becomes of them, and that nothing is left."""

import asyncio
import itertools
import json
import os
import shutil
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from limits import LIMIT_S
from waiting import until, until_called, until_files

from grainlike import (
    Cores,
    Executor,
    LaunchError,
    Nodes,
    Token,
    WallTime,
    cancel,
    connect,
    delayed,
    gather,
    info,
    run_process,
    start,
)
from grainlike.head.fleet import FleetDriver
from grainlike.launch import Slurm

pytestmark = pytest.mark.asyncio


def slurm_pool(resources="cores=1", **keys):
    """Return a pool whose blocks last five minutes, unless said otherwise."""
    return Slurm(resources, **{"walltime": "0:05:00", **keys})


@asynccontextmanager
async def opened(launch=None):
    """Open an executor without cores of its own, with pools, which workers reach on loopback."""
    async with asyncio.timeout(LIMIT_S), Executor(local=None, listen="tcp://127.0.0.1:0", launch=launch) as executor:
        yield executor


@pytest.fixture(autouse=True)
def private_state(tmp_path, monkeypatch):
    """Access files, and scripts and logs of blocks, are a test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(autouse=True)
def often_listed(monkeypatch):
    """Slurm is asked every second: what follows from a listing is tried here, not how long one waits for it."""
    for name in ("YOUNG_PERIOD_S", "PERIOD_S", "LEAVING_PERIOD_S"):
        monkeypatch.setattr(f"grainlike.fleet._listing.{name}", 1.0)


class Submitted:
    """Jobs that Slurm took since this test began."""

    def __init__(self, slurm):
        self._slurm = slurm
        self._before = {number for number, _ in slurm.jobs()}

    def all(self):
        """Return id and state of each that Slurm still knows: those too that have ended in the last minute."""
        return [(number, state) for number, state in self._slurm.jobs() if number not in self._before]

    def in_queue(self):
        """Return the ids of those that have not ended."""
        queue = self._slurm.say("squeue", "-h", "-o", "%i").split()
        return [number for number in queue if number not in self._before]


@pytest_asyncio.fixture
async def submitted(slurm):
    """Jobs that Slurm took in a test, which fails if any is left in the queue."""
    jobs = Submitted(slurm)
    yield jobs
    left = jobs.in_queue()
    if left:
        slurm.say("scancel", *left)
    assert left == []


def ended(executor):
    """Return the blocks that have ended."""
    return [row for row in executor._service._service.launched.view.block_rows(ended=True) if row.state == "ended"]


def pool_row(executor):
    """Return the row of the only pool."""
    (row,) = executor.pools()
    return row


async def until_up(executor, count=1):
    """Return the blocks once all of them are up, with so many workers."""

    def all_up():
        rows = executor.blocks()
        found = sum(row.workers for row in rows) == count and {row.state for row in rows} == {"up"}
        return rows if found else None

    return await until(all_up)


async def until_counted():
    """Return once a head has counted twice anew how many workers its jobs want."""
    counts = itertools.count()
    await until_called(FleetDriver, "_count", lambda: next(counts) >= 3)


class Gate:
    """Jobs that wait for a file, and say by a file each that they run."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()

    def job(self, number=0):
        """Return a call of one core that ends once the gate is open; its value is the Slurm job it ran in."""
        return (_wait_at @ Cores(1))(str(self.folder), number)

    def attempts(self, number=0):
        """Return how often a job was started."""
        return len(list(self.folder.glob(f"{number}-*")))

    async def until_started(self, number=0, attempts=1):
        """Return once a job has been started so often."""
        await until_files(self.folder, lambda: self.attempts(number) >= attempts)

    def open(self):
        """Let the jobs end."""
        (self.folder / "open").touch()


@delayed
async def _wait_at(folder, number):
    here = Path(folder)
    (here / f"{number}-{os.environ['SLURM_JOB_ID']}").touch()
    while not (here / "open").exists():  # noqa: ASYNC110 - a process of its own, which nothing tells
        await asyncio.sleep(0.02)
    return os.environ["SLURM_JOB_ID"]


@pytest.fixture
def gate(tmp_path):
    """Gate at which jobs wait."""
    return Gate(tmp_path / "gate")


@delayed
def where():
    """Return the Slurm job."""
    return os.environ["SLURM_JOB_ID"]


# --- up and down -----------------------------------------------------------------------------------------------------


async def test_three_workers_are_three_blocks_and_nothing_is_left_when_they_are_taken_down(slurm, submitted):
    asked = slurm_pool("cores=2 memory=500Mi token=cpu", min=3, max=3)
    async with opened() as executor:
        pool = await executor.up(asked, name="cpu")
        rows = await until_up(executor, 3)
        assert [row.label for row in rows] == ["cpu-1", "cpu-2", "cpu-3"]
        assert sorted(row.native for row in rows) == sorted(number for number, _ in submitted.all())
        for worker in executor.workers():
            assert worker.resources.units == {**asked.offer.units}
        assert {worker.name for worker in executor.workers()} == {"cpu-1.0", "cpu-2.0", "cpu-3.0"}
        assert await (where @ Cores(2))() in [row.native for row in rows]
        await pool.down()
        assert executor.pools() == []
        assert submitted.in_queue() == []
        assert [(row.label, row.reason) for row in ended(executor)] == [
            (f"cpu-{number}", "the pool is taken down") for number in (1, 2, 3)
        ]
        assert executor.workers() == []


async def test_an_executor_that_closes_leaves_nothing_in_the_queue(slurm, submitted):
    async with opened(slurm_pool(max=4)) as executor:
        assert await (where @ Cores(1))() == executor.blocks()[0].native
        assert submitted.in_queue() != []
    assert submitted.in_queue() == []


async def test_ten_jobs_have_two_blocks_at_most_which_end_when_they_are_idle(slurm, submitted, gate):
    async with opened(slurm_pool(max=2, idle=1)) as executor:
        jobs = [start(gate.job(number)) for number in range(10)]
        await until_up(executor, 2)
        await until_counted()
        gate.open()
        natives = [await job for job in jobs]
        assert sorted(set(natives)) == sorted(number for number, _ in submitted.all())
        assert len(set(natives)) == 2
        await until(lambda: not executor.blocks())
        assert submitted.in_queue() == []
        assert {row.reason for row in ended(executor)} == {"idle for 1 s"}


async def test_a_block_of_three_nodes_runs_a_gang_and_outlives_one_worker(slurm, submitted):
    async with opened(slurm_pool(nodes=3, min=3, max=3, idle="0:05:00")) as executor:
        (row,) = await until_up(executor, 3)
        assert [number for number, _ in submitted.all()] == [row.native]

        @delayed
        async def over_all():
            done = await run_process(["srun", "-N3", "sh", "-c", "echo $SLURMD_NODENAME"])
            return sorted(done.stdout.decode().split())

        assert len(set(await (over_all @ (Nodes(3, each=Cores(1))))())) == 3
        os.kill(executor.workers()[0].pid, 9)
        await until_up(executor, 2)
        assert await (where @ Cores(1))() == row.native
        assert len(submitted.all()) == 1


# --- refusals and failures -------------------------------------------------------------------------------------------


async def test_a_refused_partition_is_told_at_the_prompt_in_slurms_words(slurm, submitted):
    nowhere = slurm_pool(queue="nowhere", min=1)
    with pytest.raises(LaunchError, match="invalid partition specified: nowhere") as caught:
        async with opened(nowhere):
            pytest.fail("it opened")
    assert caught.value.command == ("sbatch", "--parsable")
    assert "#SBATCH --partition=nowhere" in caught.value.script
    async with opened() as executor:
        with pytest.raises(LaunchError, match="invalid partition specified: nowhere"):
            await executor.up(nowhere, name="cpu")
        assert "invalid partition specified: nowhere" in pool_row(executor).paused, "it stays, paused"
        assert executor.blocks() == []
    assert submitted.all() == []


async def test_blocks_without_a_python_pause_their_pool_until_it_has_a_good_one(slurm, submitted):
    async with opened(slurm_pool(python="/nonexistent")) as executor:
        r_ = start((where @ Cores(1))())
        await until(lambda: executor.pools() and pool_row(executor).paused)
        assert "/nonexistent" in pool_row(executor).paused
        assert "/nonexistent" in str(await executor.explain(r_))
        assert len(submitted.all()) == 1
        await executor.up(slurm_pool(), name="slurm")
        assert await r_ == executor.blocks()[0].native
        assert pool_row(executor).paused == ""
        assert len(submitted.all()) == 2


class Instead:
    """Program that is found in place of one of Slurm's, until `stop`; what it does is shell text."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        folder.mkdir()
        self._path = os.environ["PATH"]
        monkeypatch.setenv("PATH", f"{folder}:{self._path}")

    def of(self, name, text):
        """Have calls of `name` run this text; `$REAL` is the program itself."""
        real = shutil.which(name, path=self._path)
        program = self.folder / name
        fresh = program.with_suffix(".new")
        fresh.write_text(f"#!/bin/sh\nREAL={real}\necho called >> {self.folder}/{name}.calls\n{text}\n")
        fresh.chmod(0o755)
        fresh.replace(program)

    def calls(self, name):
        """Return how often it was called."""
        path = self.folder / f"{name}.calls"
        return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture
def instead(tmp_path, monkeypatch):
    """Programs in place of Slurm's."""
    return Instead(tmp_path / "bin", monkeypatch)


async def test_a_submission_that_was_taken_without_an_answer_is_adopted(slurm, submitted, instead):
    words = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
    instead.of("sbatch", f'"$REAL" "$@" >/dev/null; echo "{words}" >&2; exit 1')
    async with opened(slurm_pool(max=4)) as executor:
        native = await (where @ Cores(1))()
        (row,) = await until_up(executor, 1)
        await until(lambda: executor.blocks()[0].native)
        assert [number for number, _ in submitted.all()] == [native] == [executor.blocks()[0].native]
        assert (row.label, instead.calls("sbatch")) == ("slurm-1", 1)
        assert ended(executor) == []


async def test_while_no_listing_comes_nothing_is_submitted_and_nothing_ended(slurm, submitted, gate, instead):
    async with opened(slurm_pool(max=4)) as executor:
        first = start(gate.job(0))
        (row,) = await until_up(executor, 1)
        instead.of("squeue", 'echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1')
        await until(lambda: instead.calls("squeue") >= 2)
        more = [start(gate.job(number)) for number in range(1, 6)]
        await until(lambda: "does not answer" in pool_row(executor).why)
        assert "Unable to contact slurm controller" in pool_row(executor).why
        assert pool_row(executor).wanted == 3
        calls = instead.calls("squeue")
        await until(lambda: instead.calls("squeue") >= calls + 2)
        assert [(row.label, row.state) for row in executor.blocks()] == [("slurm-1", "up")]
        assert submitted.all() == [(row.native, "RUNNING")]
        instead.of("squeue", 'exec "$REAL" "$@"')
        await until_up(executor, 4)
        gate.open()
        assert await first == row.native
        assert len({await job for job in more}) >= 3
        assert len(submitted.all()) == 4


async def test_blocks_that_end_before_a_worker_joins_pause_their_pool_after_the_third(slurm, submitted, monkeypatch):
    monkeypatch.setattr("grainlike.fleet._endings.HOLD_S", 0.1)
    async with opened(slurm_pool(setup=["echo the disk is gone", "exit 3"])) as executor:
        r_ = start((where @ Cores(1))())
        await until(lambda: executor.pools() and pool_row(executor).paused)
        await until(lambda: "the disk is gone" in pool_row(executor).paused)
        assert "3 blocks in a row ended before a worker joined" in pool_row(executor).paused
        await until_counted()
        assert [state for _, state in submitted.all()] == ["FAILED"] * 3
        cancel(r_)


async def test_at_a_limit_of_the_site_a_pool_waits_and_goes_on(slurm, submitted, instead, monkeypatch):
    monkeypatch.setattr("grainlike.fleet._endings.HOLD_S", 0.1)
    words = "Batch job submission failed: Job violates accounting/QOS policy (job submit limit)"
    instead.of("sbatch", f'printf "sbatch: error: %s\\n" AssocMaxSubmitJobLimit "{words}" >&2; exit 1')
    async with opened(slurm_pool()) as executor:
        r_ = start((where @ Cores(1))())
        await until(lambda: instead.calls("sbatch") >= 2)
        await until(lambda: "AssocMaxSubmitJobLimit" in pool_row(executor).why)
        assert pool_row(executor).paused == ""
        instead.of("sbatch", 'exec "$REAL" "$@"')
        assert await r_ == executor.blocks()[0].native
        assert len(submitted.all()) == 1


async def test_who_is_cancelled_before_the_answer_leaves_a_pool_that_goes_down(slurm, submitted, instead, tmp_path):
    instead.of("sbatch", f'while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; exec "$REAL" "$@"')
    async with opened() as executor:
        asks = asyncio.create_task(executor.up(slurm_pool(min=1), name="cpu"))
        await until(lambda: instead.calls("sbatch"))
        asks.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asks
        (tmp_path / "go").touch()
        await until(lambda: not executor.pools())
        assert len(submitted.all()) == 1
        assert submitted.in_queue() == []


async def test_a_pool_of_a_head_elsewhere_stays_when_its_program_leaves(slurm, submitted):
    async with opened() as executor:
        async with connect() as program:
            pool = await program.up(slurm_pool(min=1), name="cpu")
            assert await (where @ Cores(1))() == program.blocks()[0].native
            await pool.scale(2)
            await until_up(program, 2)
        assert [row.label for row in executor.blocks()] == ["cpu-1", "cpu-2"]
        async with connect() as program:
            await program.up(slurm_pool(max=2), name="cpu")
            assert (program.pools()[0].min, program.pools()[0].max) == (0, 2)
            assert len(program.blocks()) == 2
        await executor._service.fleet().down("cpu", now=True)
        assert submitted.in_queue() == []
        assert len(submitted.all()) == 2


async def test_short_jobs_of_a_known_time_start_one_block(slurm, submitted):
    @delayed
    async def brief(number):
        await asyncio.sleep(0.001)
        return number

    async with opened(slurm_pool(max=8)):
        for number in range(100):  # until it is known how long one takes
            await (brief @ Cores(1))(number)
        values = await gather(*((brief @ Cores(1))(number) for number in range(3_000)))
        assert sum(values) == 3_000 * 2_999 // 2
        assert len(submitted.all()) == 1


# --- limits of time and money ----------------------------------------------------------------------------------------


async def test_a_job_that_runs_into_the_end_of_its_block_cleans_up_and_runs_in_the_next(slurm, submitted, tmp_path):
    files = tmp_path / "files"
    files.mkdir()

    @delayed
    async def careful():
        number = len(list(files.glob("begun-*")))
        (files / f"begun-{number}").touch()
        try:
            await asyncio.sleep(3600 if number == 0 else 0)
        except asyncio.CancelledError as error:
            (files / "told").write_text(str(error))
            raise
        finally:
            (files / f"cleaned-{number}").touch()
        return os.environ["SLURM_JOB_ID"]

    async with opened(slurm_pool(walltime=60, margin=50, queue="minute")) as executor:
        r_ = start((careful @ Cores(1))())
        await until_up(executor, 1)
        first = executor.blocks()[0].native
        await until_files(files, (files / "cleaned-0").exists)
        assert "walltime" in (files / "told").read_text()
        second = await r_
        assert second != first
        assert await asyncio.to_thread(slurm.end_of, first) == "COMPLETED 0:0"
        assert slurm.say("squeue", "-h", "-t", "all", "-j", first, "-o", "%M") < "0:40", "the pool's margin was kept"
        assert len(submitted.all()) == 2
        assert (info(r_).attempt, executor.report().failed) == (2, 0)


async def test_a_job_for_which_no_block_lasts_long_enough_has_none_submitted(slurm, submitted):
    async with opened(slurm_pool(walltime=60, queue="minute", margin=10)) as executor:
        r_ = start((where @ (Cores(1) & WallTime("0:05:00")))())
        await (where @ (Cores(1) & WallTime(5)))()
        assert info(r_).state == "pending"
        assert pool_row(executor).wanted == 0
        assert len(submitted.all()) == 1, "for the short one"
        cancel(r_)


async def test_a_budget_for_one_block_is_for_one_block(slurm, submitted, gate):
    asked = slurm_pool(walltime="0:20:00", budget=0.5, max=4)
    async with opened(asked) as executor:
        jobs = [start(gate.job(number)) for number in range(4)]
        (row,) = await until_up(executor, 1)
        await until(lambda: "core-hours" in pool_row(executor).paused)
        await until(lambda: pool_row(executor).wanted == 3)
        gate.open()
        assert {await job for job in jobs} == {row.native}
        assert submitted.all() == [(row.native, "RUNNING")]


async def test_blocks_that_others_end_are_replaced_and_never_pause_their_pool(slurm, submitted, gate):
    async with opened(slurm_pool()) as executor:
        r_ = start(gate.job())
        for times in range(1, 4):
            await gate.until_started(attempts=times)
            (row,) = await until_up(executor, 1)
            slurm.say("scancel", row.native)
        await gate.until_started(attempts=4)
        gate.open()
        assert await r_ == executor.blocks()[0].native
        assert pool_row(executor).paused == ""
        assert len(submitted.all()) == 4
        assert [row.label for row in ended(executor)] == ["slurm-1", "slurm-2", "slurm-3"]
        assert all(row.reason.startswith("CANCELLED") for row in ended(executor))


async def test_a_block_that_cannot_start_says_why_and_leaves_the_queue_with_its_pool(slurm, submitted):
    slurm.say("scontrol", "update", "PartitionName=minute", "State=DOWN")
    try:
        async with opened() as executor:
            pool = await executor.up(slurm_pool(queue="minute", walltime=60, max=1), name="cpu")
            r_ = start((where @ Cores(1))())
            await until(lambda: executor.blocks() and executor.blocks()[0].reason == "PartitionDown")
            assert executor.blocks()[0].state == "pending"
            assert "PartitionDown" in str(await executor.explain(r_))
            await pool.down()
            assert executor.blocks() == []
            assert submitted.in_queue() == []
            cancel(r_)
    finally:
        slurm.say("scontrol", "update", "PartitionName=minute", "State=UP")


async def test_another_time_limit_is_followed(slurm, submitted):
    long, short = (where @ (Cores(1) & WallTime("0:30:00")))(), (where @ (Cores(1) & WallTime("0:04:00")))()
    async with opened(slurm_pool(min=1)) as executor:
        (row,) = await until_up(executor, 1)
        await until(lambda: 240 < (executor.blocks()[0].left_s or 0) <= 300)
        r_ = start(long)
        slurm.say("scontrol", "update", f"JobId={row.native}", "TimeLimit=60")
        await until(lambda: executor.blocks()[0].left_s > 3000)
        assert await r_ == row.native, "there is time for it now"
        slurm.say("scontrol", "update", f"JobId={row.native}", "TimeLimit=4")
        await until(lambda: executor.blocks()[0].left_s <= 240)
        r_ = start(short)
        assert await (where @ Cores(1))() == row.native
        assert info(r_).state == "pending", "not all of it is left"
        cancel(r_)
        assert len(submitted.all()) == 1


async def test_a_gang_gets_its_workers_from_blocks_of_one_node_and_none_leaves_meanwhile(slurm, submitted):
    @delayed
    async def over_all():
        return "ran"

    async with opened(slurm_pool(max=4, idle=1)) as executor:
        assert await (over_all @ Nodes(4, each=Cores(1)))() == "ran"
        assert len(submitted.all()) == 4
        await until(lambda: executor.blocks() == [])
        assert {row.reason for row in ended(executor)} == {"idle for 1 s"}


async def test_of_two_pools_each_starts_blocks_for_its_own_jobs_alone(slurm, submitted):
    pools = [slurm_pool("cores=1"), slurm_pool("cores=1 token=big")]
    async with opened(pools) as executor:
        await (where @ (Cores(1) & Token("big")))()
        assert [row.pool for row in executor.blocks()] == ["slurm2"]
        await (where @ Cores(1))()  # either could run it, and one is there
        assert [row.pool for row in executor.blocks()] == ["slurm2"]
        assert len(submitted.all()) == 1


# --- a head that is killed -------------------------------------------------------------------------------------------


class HeadProgram:
    """`grainlike head start` with a journal, as a process of its own that may be killed."""

    def __init__(self, folder):
        self._folder = folder

    async def start(self):
        """Start it; return once it listens."""
        words = ("head", "start", "--listen", "tcp://127.0.0.1:0", "--journal", str(self._folder))
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "grainlike", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        assert (await self.process.stdout.readline()).startswith(b"head at ")

    async def kill(self):
        """End it as a crash would."""
        self.process.kill()
        await self.process.wait()

    async def stop(self):
        """End it with its blocks."""
        await command("head", "stop")
        await self.process.wait()


async def command(*words):
    """Run a command of ours; return what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "grainlike", *words, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return out.decode()


async def test_a_head_that_is_killed_within_sbatch_finds_the_block_and_later_its_workers(
    slurm, submitted, instead, tmp_path
):
    async def blocks_up():
        rows = json.loads(await command("blocks", "--json"))
        return rows if [row["state"] for row in rows] == ["up"] else None

    began, killed = tmp_path / "began", tmp_path / "killed"
    head = HeadProgram(tmp_path / "journal")
    async with asyncio.timeout(LIMIT_S):
        await head.start()
        instead.of("sbatch", f'"$REAL" "$@" >/dev/null; touch {began}; while ! [ -e {killed} ]; do sleep 0.1; done')
        asking = asyncio.create_task(
            command("up", "slurm", "-n", "1", "--resources", "cores=1", "--walltime", "0:05:00")
        )
        await until_files(tmp_path, began.exists)
        await head.kill()
        killed.touch()
        instead.of("sbatch", '"$REAL" "$@"')
        await head.start()
        await asking
        [row] = await until(blocks_up)
        assert [number for number, _ in submitted.all()] == [row["native"]]
        [worker] = json.loads(await command("ls", "--json"))
        await head.kill()
        await head.start()
        [again] = await until(blocks_up)
        [same] = json.loads(await command("ls", "--json"))
        assert (again["label"], again["native"]) == (row["label"], row["native"]) == ("slurm-1", row["native"])
        assert same["pid"] == worker["pid"]
        assert len(submitted.all()) == 1
        await head.stop()
        assert submitted.in_queue() == []
