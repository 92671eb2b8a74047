"""Workers from a real Grid Engine: what is said to it, what it grants, and that nothing is left."""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from grid_engine_here import GridEngineHere, missing
from limits import LIMIT_S
from waiting import until, until_files

from grainlike import GVAR, Cores, Executor, LaunchError, Nodes, connect, delayed, info, start
from grainlike.launch import SGE

pytestmark = pytest.mark.asyncio


@pytest.fixture(scope="module")
def engine():
    """Two hosts of four slots; the tests of this file are where its jobs are submitted."""
    if missing():
        pytest.fail(f"{', '.join(missing())} not there: make test-launch unpacks them", pytrace=False)
    folder = Path(tempfile.mkdtemp(prefix="sge-"))
    try:
        with GridEngineHere(folder) as started, pytest.MonkeyPatch.context() as patch, started.entered():
            for name, value in started.environment.items():
                patch.setenv(name, value)
            yield started
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def private_state(tmp_path, monkeypatch):
    """Access files, and scripts and logs of blocks, are a test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(autouse=True)
def often_listed(monkeypatch):
    """Grid Engine is asked every second: what follows from a listing is tried here, not how long one waits for it.
    Heads that close wait until nothing is left, however long that takes.
    """
    for name in ("YOUNG_PERIOD_S", "PERIOD_S", "LEAVING_PERIOD_S"):
        monkeypatch.setattr(f"grainlike.fleet._listing.{name}", 1.0)
    monkeypatch.setattr("grainlike.head.fleet._driver.CLOSE_S", LIMIT_S)


@pytest_asyncio.fixture(autouse=True)
async def empty_queue(engine):
    """No test leaves a job in the queue."""
    yield
    left = engine.jobs()
    if left:
        engine.say("qdel", "-f", *left, check=False)
    assert left == {}


@asynccontextmanager
async def opened(launch=None):
    """Open an executor without cores of its own, with pools, which workers reach over the network of the hosts."""
    async with asyncio.timeout(LIMIT_S), Executor(local=None, listen="tcp://0.0.0.0:0", launch=launch) as executor:
        yield executor


def sge_pool(resources="cores=1", **keys):
    """Return a pool whose blocks last five minutes, unless said otherwise."""
    return SGE(resources, **{"walltime": "0:05:00", **keys})


async def command(*words):
    """Run a command of ours; return its exit code and what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "grainlike", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await process.communicate()
    return process.returncode, out.decode()


async def until_up(executor, count=1):
    """Return the blocks once all of them are up, with so many workers, and their ids are known: a worker may join
    before the submission is answered.
    """

    def all_up():
        rows = executor.blocks()
        found = sum(row.workers for row in rows) == count and {row.state for row in rows} == {"up"}
        return rows if found and all(row.native for row in rows) else None

    return await until(all_up)


async def workers(executor, count):
    """Return the workers, by name, once there are so many."""
    await until(lambda: len(executor.workers()) == count)
    return {worker.name: worker for worker in executor.workers()}


def ended(executor):
    """Return the blocks that have ended."""
    return [row for row in executor._service._service.launched.view.block_rows(ended=True) if row.state == "ended"]


@delayed
def where():
    """Return how many cores the job has, its job of Grid Engine, and its host."""
    return len(GVAR.res.cores), os.environ["JOB_ID"], os.uname().nodename


class Careful:
    """Job whose first attempt lasts until it is cancelled; files say what it saw."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()

    def job(self):
        """Return the call; its value is the job of Grid Engine in which it ended."""
        return (_careful @ Cores(1))(str(self.folder))

    async def until_seen(self, name):
        """Return once there is such a file."""
        await until_files(self.folder, (self.folder / name).exists)

    def seen(self, name):
        """Return the text of such a file."""
        return (self.folder / name).read_text()


@delayed
async def _careful(folder):
    here, attempt = Path(folder), GVAR.job.attempt
    (here / f"begun-{attempt}").touch()
    try:
        await asyncio.sleep(3600 if attempt == 1 else 0)
    except asyncio.CancelledError as error:
        (here / f"told-{attempt}").write_text(str(error))
        raise
    finally:
        (here / f"cleaned-{attempt}").touch()
    return os.environ["JOB_ID"]


@pytest.fixture
def careful(tmp_path):
    """Job that cleans up."""
    return Careful(tmp_path / "careful")


# --- before anything is submitted ------------------------------------------------------------------------------------

BRIEF = ("--resources", "cores=1 memory=500Mi", "--walltime", "0:05:00")


async def test_a_dry_run_prints_script_and_answer_without_a_head_and_submits_nothing(engine, tmp_path):
    code, said = await command("up", "sge", "--dry", *BRIEF, "--queue", "work")
    assert code == 0, said
    assert said.startswith("$ qsub -terse\n#!/bin/bash -l\n#$ -N gl")
    assert {"#$ -l h_rt=0:05:00", "#$ -l h_vmem=756M", "#$ -q work"} <= {*said.splitlines()}
    assert "verification: found suitable queue(s)" in said
    assert engine.jobs() == {}
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (["--queue", "nowhere"], 1, 'job requests unknown queue "nowhere"'),
        (["--queue", "minute"], 1, "because of cluster queue"),
        (["--", "-l", "h_rt=60"], 2, "walltime"),
    ],
)
async def test_a_dry_run_of_what_would_be_refused_says_why(engine, flags, code, words):
    found, said = await command("up", "sge", "--dry", *BRIEF, *flags)
    assert (found, words in said) == (code, True), said
    assert engine.jobs() == {}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"resources": "cores=5", "pe": "mpi"}, "no suitable queues"),
        ({"resources": "cores=2", "pe": "omp"}, 'the requested parallel environment "omp" does not exist'),
        ({"account": "p17"}, 'the requested project "p17" does not exist'),
        ({"native": ["-l", "nothing=1"]}, 'unknown resource "nothing"'),
        ({"resources": "cores=1 gpus=2"}, "it offers only hc:gpu=1"),
    ],
)
async def test_a_check_of_what_grid_engine_refuses_has_its_words(engine, change, words):
    assert "found suitable queue" in await sge_pool("cores=4 gpus=1", pe="mpi").check()
    with pytest.raises(LaunchError, match=words) as caught:
        await sge_pool(**change).check()
    assert caught.value.command == ("qsub", "-w", "v")
    assert engine.jobs() == {}


# --- up and down -----------------------------------------------------------------------------------------------------


async def test_three_workers_are_three_blocks_with_exactly_the_offer_asked_for(engine):
    asked = sge_pool("cores=2 memory=500Mi token=cpu", pe="mpi", min=3, max=3)
    async with opened() as executor:
        pool = await executor.up(asked, name="cpu")
        rows = await until_up(executor, 3)
        assert [row.label for row in rows] == ["cpu-1", "cpu-2", "cpu-3"]
        assert {row.native for row in rows} == {*engine.jobs()}
        assert {row.nodes for row in rows} <= {"g1", "g2"}
        for worker in executor.workers():
            assert worker.resources.units == {**asked.offer.units}
        cores, native, host = await (where @ Cores(2))()
        assert (cores, native in engine.jobs(), host in ("g1", "g2")) == (2, True, True)
        await until(lambda: all(row.left_s and row.left_s <= 300 for row in executor.blocks()))
        await pool.down()
        assert engine.jobs() == {}
        assert [(row.label, row.reason) for row in ended(executor)] == [
            (f"cpu-{number}", "the pool is taken down") for number in (1, 2, 3)
        ]
        assert {engine.end_of(row.native) for row in rows} == {"failed 0 exit_status 0"}


async def test_the_commands_bring_workers_up_and_leave_nothing(engine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grainlike.toml").write_text(
        '[pool.cpu]\nkind = "sge"\nresources = "cores=2"\nwalltime = "0:05:00"\npe = "mpi"\nqueue = "work"\n'
    )
    words = ("head", "start", "--listen", "tcp://0.0.0.0:0")
    head = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "grainlike", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        assert (await head.stdout.readline()).startswith(b"head at ")
        code, said = await command("up", "cpu", "-n", "3", "--wait")
        assert (code, len(engine.jobs())) == (0, 3), said
        async with asyncio.timeout(LIMIT_S), connect() as program:
            cores, native, _ = await (where @ Cores(2))()
            assert cores == 2
            await until(lambda: native in [row.native for row in program.blocks()])
        code, said = await command("down")
        assert (code, engine.jobs()) == (0, {}), said
        rows = json.loads((await command("blocks", "--all", "--json"))[1])
        assert [(row["label"], row["state"], row["reason"]) for row in rows] == [
            (f"cpu-{number}", "ended", "the pool is taken down") for number in (1, 2, 3)
        ]
    finally:
        await command("head", "stop")
        await head.wait()


async def test_a_submission_that_was_taken_without_an_answer_is_adopted(engine, tmp_path, monkeypatch):
    program, calls = tmp_path / "bin" / "qsub", tmp_path / "calls"
    program.parent.mkdir()
    words = "Unable to run job: failed receiving gdi request response for mid=1 (got syncron message receive timeout)."
    real = shutil.which("qsub")
    program.write_text(f'#!/bin/sh\necho called >> {calls}\n{real} "$@" >/dev/null; echo "{words}" >&2; exit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    async with opened(sge_pool(max=4)) as executor:
        _, native, _ = await (where @ Cores(1))()
        (row,) = await until_up(executor)
        assert [*engine.jobs()] == [native] == [row.native]
        assert (row.label, calls.read_text()) == ("sge-1", "called\n")
        assert ended(executor) == []


async def test_a_pending_block_says_its_state_and_leaves_the_queue_with_its_pool(engine):
    engine.say("qmod", "-d", "work")
    try:
        async with opened() as executor:
            pool = await executor.up(sge_pool(queue="work", min=1), name="cpu")
            await until(lambda: executor.blocks()[0].reason == "state qw")
            assert executor.blocks()[0].state == "pending"
            await pool.down()
            assert engine.jobs() == {}
    finally:
        engine.say("qmod", "-e", "work")


async def test_a_block_whose_log_cannot_be_written_is_taken_out_of_the_queue(engine, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(engine.apart / "state"))
    monkeypatch.setattr("grainlike.fleet._endings.HOLD_S", 0.1)
    async with opened() as executor:
        await executor.up(sge_pool(min=1), name="cpu")
        await until(lambda: executor.pools()[0].paused)
        assert "3 blocks in a row ended before a worker joined" in executor.pools()[0].paused
        assert all("state Eqw: it could not be started" in row.reason for row in ended(executor))
        await until(lambda: engine.jobs() == {})


# --- ends ------------------------------------------------------------------------------------------------------------


async def test_a_job_that_runs_into_the_end_of_its_block_cleans_up_and_runs_in_the_next(engine, careful):
    async with opened(sge_pool(walltime=160, margin=110)) as executor:  # it has 50 s to start
        r_ = start(careful.job())
        (row,) = await until_up(executor, 1)
        await careful.until_seen("cleaned-1")
        assert "walltime" in careful.seen("told-1")
        native = await r_
        assert [new.native for new in await until_up(executor)] == [native] != [row.native]
        assert await asyncio.to_thread(engine.end_of, row.native) == "failed 0 exit_status 0"
        assert (info(r_).attempt, executor.report().failed) == (2, 0)
        assert executor.pools()[0].paused == ""


@pytest.mark.parametrize("nodes", [1, 2])
async def test_jobs_of_a_block_that_is_deleted_clean_up_and_run_elsewhere(engine, tmp_path, nodes):
    jobs = [Careful(tmp_path / f"careful-{number}") for number in range(nodes)]
    async with opened(sge_pool(nodes=nodes, min=nodes, max=nodes, pe="each")) as executor:
        (row,) = await until_up(executor, nodes)
        running = [start(job.job()) for job in jobs]
        for job in jobs:
            await job.until_seen("begun-1")
        engine.say("qdel", row.native)
        for job in jobs:
            await job.until_seen("cleaned-1")
        natives = {await r_ for r_ in running}
        assert natives == {new.native for new in await until_up(executor, nodes)} != {row.native}
        assert {info(r_).attempt for r_ in running} == {2}
        end = await asyncio.to_thread(engine.end_of, row.native)
        assert end == "failed 0 exit_status 0", "it was told, and not killed"
        assert executor.pools()[0].paused == ""


# --- several nodes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cores", "pe", "dies"), [(1, "each", 1), (2, "two", 0)])
async def test_a_block_of_two_nodes_runs_a_gang_and_outlives_one_worker(engine, cores, pe, dies):
    @delayed
    async def over_all():
        return "ran"

    async with opened(sge_pool(f"cores={cores}", nodes=2, min=2, max=2, pe=pe)) as executor:
        (row,) = await until_up(executor, 2)
        assert [*engine.jobs()] == [row.native]
        named = await workers(executor, 2)
        assert sorted(named) == ["sge-1.0", "sge-1.1"]
        assert {worker.host for worker in named.values()} == {"g1", "g2"}
        assert await (over_all @ Nodes(2, each=Cores(cores)))() == "ran"
        killed = named.pop(f"sge-1.{dies}")
        engine.kill(killed.host, killed.pid)
        (left,) = (await workers(executor, 1)).values()
        assert await (where @ Cores(cores))() == (cores, row.native, left.host)
        assert engine.jobs() == {row.native: "r"}


# --- by hand ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def by_hand(engine, tmp_path):
    """Return a function that submits a script with these flags, in which a worker is started; it ends with the test."""
    natives = []

    def submit(*flags, before=""):
        access = tmp_path / "state" / "grainlike" / "current" / "worker.json"
        script = tmp_path / "by-hand"
        script.write_text(f"#!/bin/bash\n{before}\nexec {sys.executable} -m grainlike worker start --head {access}\n")
        words = ("-terse", "-S", "/bin/bash", "-j", "y", "-o", tmp_path / "out", *flags, script)
        natives.append(engine.say("qsub", *words))
        return natives[-1]

    yield submit
    for native in natives:
        engine.say("qdel", "-f", native, check=False)


async def test_a_worker_started_by_hand_offers_what_its_job_was_granted(by_hand):
    async with opened() as executor:
        by_hand("-pe", "mpi", "2", "-l", "h_rt=0:05:00,h_vmem=600M", before="sleep 5")
        (worker,) = (await workers(executor, 1)).values()
        assert len(worker.resources.cores) == 2
        assert worker.resources.memory == 1200 * 2**20
        assert 200 < worker.resources.walltime <= (300 - 5) * 0.8, "a margin before the end, counted from its start"


async def test_a_worker_started_by_hand_offers_the_slots_of_its_host_alone(by_hand):
    async with opened() as executor:
        by_hand("-pe", "each", "2", "-l", "h_vmem=1G", "-q", "minute")
        (worker,) = (await workers(executor, 1)).values()
        assert len(worker.resources.cores) == 1
        assert worker.resources.memory == 2**30
        assert 0 < worker.resources.walltime <= 48, "its queue has a limit of a minute"
