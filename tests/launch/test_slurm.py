"""What is said to Slurm, and what is understood of it, said to a real one: scripts, listings, checks, ends."""

import ast
import asyncio
import itertools
import os
import re
import stat
import sys

import pytest
import pytest_asyncio
from limits import LIMIT_S
from pages import blocks
from waiting import until, until_files

from grainlike import GVAR, Cores, Executor, LaunchError, Nodes, WallTime, cancel, delayed, info, run_process, start
from grainlike.dialects import SlurmDialect, native_environment
from grainlike.launch import Slurm
from grainlike.launch._native import NATIVE_S, run_native

pytestmark = pytest.mark.asyncio

DIALECT = SlurmDialect()
_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def private_state(tmp_path, monkeypatch):
    """Access files of a test are its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest_asyncio.fixture
async def head():
    """An executor without cores of its own, which workers reach on loopback."""
    async with asyncio.timeout(LIMIT_S), Executor(local=None, listen="tcp://127.0.0.1:0") as executor:
        yield executor


class Block:
    """A block that was submitted: `native` is its id, `name` its name, `folder` where script and log are."""

    def __init__(self, pool, tmp_path):
        self.number = next(_numbers)
        self.name = f"gl1a2b3c4d-{self.number}"
        self.folder = tmp_path / self.name
        self.folder.mkdir(mode=0o700)
        self.request = pool.block(
            name=self.name,
            label=f"cpu-{self.number}",
            directory=str(self.folder),
            access=str(tmp_path / "state" / "grainlike" / "current" / "worker.json"),
            environment=os.environ,
        )

    async def submitted(self):
        """Submit it; return itself."""
        answer = DIALECT.submitted(await say(DIALECT.submit(self.request)))
        assert answer.verdict == "accepted", answer
        self.native = answer.native
        return self

    async def listed(self):
        """Return its row in the listing; None where it has none."""
        (command,) = DIALECT.list("root")
        listing = DIALECT.listed(await say(command))
        assert listing.failed == ""
        return next((row for row in listing.blocks if row.name == self.name), None)

    async def until_listed_as(self, *states):
        """Return its row once it is in one of these states."""

        async def found():
            row = await self.listed()
            return row if row is not None and row.state in states else None

        return await until(found)

    @property
    def log(self):
        return (self.folder / "log").read_text()


async def say(command, timeout=NATIVE_S):
    """Run a native command as a head does."""
    return await run_native(command, native_environment(os.environ, DIALECT.finders), timeout=timeout)


async def workers(executor, count):
    """Return the workers, by name, once there are so many."""
    await until(lambda: len(executor.workers()) == count)
    return {worker.name: worker for worker in executor.workers()}


@delayed
def where():
    """Return the cores of the job, and its Slurm job."""
    return sorted(GVAR.res.cores), os.environ["SLURM_JOB_ID"]


# --- before anything is submitted ------------------------------------------------------------------------------------


def known(slurm):
    """Return the ids of the jobs that Slurm knows: those of other tests, too, until it forgets them."""
    return {number for number, _ in slurm.jobs()}


async def test_a_check_brings_slurms_answer_and_submits_nothing(slurm):
    before = known(slurm)
    assert "to start at" in await Slurm("cores=2 memory=100Mi", walltime="0:05:00", queue="work").check()
    assert known(slurm) <= before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"queue": "nowhere"}, "invalid partition specified: nowhere"),
        ({"queue": "minute", "walltime": "1:00:00"}, "Requested time limit is invalid"),
        ({"resources": "cores=64"}, "More processors requested than permitted"),
        ({"nodes": 9, "max": 9}, "Node count specification invalid"),
        ({"native": ["--constraint=nothing-has-it"]}, "Invalid feature"),
    ],
)
async def test_a_check_of_what_slurm_refuses_has_slurms_words(slurm, change, words):
    keys = {"resources": "cores=1", "walltime": "0:05:00", "queue": "work", **change}
    before = known(slurm)
    with pytest.raises(LaunchError, match=words) as caught:
        await Slurm(keys.pop("resources"), **keys).check()
    assert caught.value.command == ("sbatch", "--test-only")
    assert known(slurm) <= before


async def test_a_refusal_reads_as_the_page_shows(slurm):
    (shown,) = blocks("docs/launching.md", "pycon")
    typed, _, refusal = shown.partition("\n")
    question = compile(typed.removeprefix(">>> "), "page", "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with pytest.raises(LaunchError) as caught:
        await eval(question, {"Slurm": Slurm})
    assert f"grainlike.errors.LaunchError: {caught.value}\n" == refusal


async def test_without_a_controller_the_answer_is_no_refusal(slurm, tmp_path, monkeypatch):
    text = (slurm.folder / "slurm.conf").read_text()
    gone = tmp_path / "slurm.conf"
    gone.write_text(re.sub(r"^SlurmctldPort=.*$", "SlurmctldPort=1", text, flags=re.MULTILINE))
    monkeypatch.setenv("SLURM_CONF", str(gone))
    block = Block(Slurm("cores=1", walltime=60), tmp_path)
    said = await say(DIALECT.submit(block.request), timeout=LIMIT_S)
    assert DIALECT.submitted(said).verdict == "unclear", said


# --- workers ---------------------------------------------------------------------------------------------------------


async def test_a_block_is_a_worker_with_exactly_the_offer_asked_for(slurm, head, tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    setup = [f"touch {marks}/before", f"defer touch {marks}/after"]
    pool = Slurm("cores=2 memory=500Mi token=cpu", walltime="0:05:00", setup=setup)
    block = await Block(pool, tmp_path).submitted()
    (worker,) = (await workers(head, 1)).values()
    assert worker.name == f"{block.request.label}.0"
    assert worker.block == block.request.label
    assert worker.resources.units == {**pool.offer.units}
    row = await block.until_listed_as("running")
    assert 0 < row.left_s <= 300
    assert len(row.nodes) == 1
    cores, job = await (where @ Cores(2))()
    assert len(cores) == 2
    assert job == block.native
    slurm.say("scontrol", "update", f"JobId={block.native}", "TimeLimit=10")
    assert (await block.until_listed_as("running")).left_s > 300, "an operator may change it"
    for path, mode in (("log", 0o600), ("", 0o700)):
        assert stat.S_IMODE((block.folder / path).stat().st_mode) == mode, path
    assert [path.name for path in marks.iterdir()] == ["before"]
    slurm.say("scancel", block.native)
    await until_files(marks, (marks / "after").exists)


async def test_a_job_that_needs_more_time_than_a_block_has_left_is_not_started_there(slurm, head, tmp_path):
    await Block(Slurm("cores=1", walltime="0:04:00"), tmp_path).submitted()
    r_ = start((where @ (Cores(1) & WallTime("0:05:00")))())
    await (where @ (Cores(1) & WallTime(10)))()
    assert info(r_).state == "pending"
    assert re.search(r"too little walltime \(asked 0:05:00, at most 0:0[0-3]:", str(await head.explain(r_)))
    cancel(r_)


async def test_a_block_ends_by_itself_when_the_head_has_gone_and_slurm_says_completed(slurm, tmp_path):
    async with asyncio.timeout(LIMIT_S):
        async with Executor(local=None, listen="tcp://127.0.0.1:0") as executor:
            block = await Block(Slurm("cores=1", walltime="0:05:00"), tmp_path).submitted()
            await (where @ Cores(1))()
            del executor
        assert await asyncio.to_thread(slurm.end_of, block.native) == "COMPLETED 0:0"
        assert (await block.until_listed_as("ended")).reason.startswith("COMPLETED")


async def test_a_block_of_three_nodes_has_three_workers_for_a_gang_and_loses_one_alone(slurm, head, tmp_path):
    block = await Block(Slurm("cores=2", walltime="0:05:00", nodes=3, python=sys.executable), tmp_path).submitted()
    named = await workers(head, 3)
    assert sorted(named) == [f"{block.request.label}.{node}" for node in range(3)]

    @delayed
    async def over_all():
        words = ("--overlap", "-N3", "-n3", "--ntasks-per-node=1", "sh", "-c", "echo $SLURMD_NODENAME")
        done = await run_process(["srun", *words])
        return sorted(done.stdout.decode().split())

    names = await (over_all @ (Nodes(3, each=Cores(1))))()
    assert len(set(names)) == 3, names
    os.kill(next(iter(named.values())).pid, 9)
    assert len(await workers(head, 2)) == 2
    assert (await block.listed()).state == "running"
    assert len(await (where @ Cores(2))()) == 2


async def test_a_pending_block_says_why_and_is_taken_out_of_the_queue(slurm, tmp_path):
    slurm.say("scontrol", "update", "PartitionName=minute", "State=DOWN")
    try:
        block = await Block(Slurm("cores=1", walltime=60, queue="minute"), tmp_path).submitted()
        await block.until_listed_as("pending")

        async def says_why():
            return (await block.listed()).reason == "PartitionDown"

        await until(says_why)
        assert (await say(DIALECT.end([block.native]))).code == 0
        assert (await block.until_listed_as("ended")).reason.startswith("CANCELLED")
    finally:
        slurm.say("scontrol", "update", "PartitionName=minute", "State=UP")


async def test_jobs_of_others_and_of_odd_names_are_passed_over(slurm, tmp_path):
    for name in ("gl", "gl1a2b3c4d-1 |RUNNING", "other\nname", "gl1a2b3c4d-x", "%j|%i"):
        slurm.say("sbatch", "--parsable", "-H", "-J", name, "-o", "/dev/null", "--wrap", "true")
    block = await Block(Slurm("cores=1", walltime=60, native=["--hold"]), tmp_path).submitted()
    (command,) = DIALECT.list("root")
    listing = DIALECT.listed(await say(command))
    mine = [row for row in listing.blocks if row.state == "pending"]
    slurm.say("scancel", "--user=root", "--state=PENDING")
    assert [(row.name, row.native) for row in mine] == [(block.name, block.native)]


@pytest.mark.parametrize("kind", ["scancel", "scancel --full"])
async def test_jobs_of_a_block_that_is_cancelled_clean_up(slurm, head, tmp_path, kind):
    block = await Block(Slurm("cores=1", walltime="0:05:00"), tmp_path).submitted()
    files = tmp_path / "files"
    files.mkdir()

    @delayed
    async def careful():
        attempt = GVAR.job.attempt
        (files / f"begun-{attempt}").touch()
        try:
            await asyncio.sleep(3600 if attempt == 1 else 0)
        finally:
            (files / f"cleaned-{attempt}").touch()
        return "done"

    r_ = start((careful @ Cores(1))())
    await until_files(files, (files / "begun-1").exists)
    slurm.say(*kind.split(), block.native)
    await until_files(files, (files / "cleaned-1").exists)
    await Block(Slurm("cores=1", walltime="0:05:00"), tmp_path).submitted()
    assert await r_ == "done"
    assert info(r_).attempt == 2


# --- by hand ---------------------------------------------------------------------------------------------------------


async def test_a_worker_started_by_hand_offers_what_its_job_was_granted(slurm, head, tmp_path):
    access = tmp_path / "state" / "grainlike" / "current" / "worker.json"
    command = f"{sys.executable} -m grainlike_worker --head {access}"
    words = ("-c1", "--mem=500", "-t", "5", "-o", tmp_path / "out", "--wrap", command)
    number = slurm.say("sbatch", "--parsable", *words)
    (worker,) = (await workers(head, 1)).values()
    assert len(worker.resources.cores) == 1
    assert 0 < worker.resources.memory <= 500 * 2**20
    assert 0 < worker.resources.walltime <= 300
    slurm.say("scancel", number)
