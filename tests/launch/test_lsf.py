"""Pools of workers on a fake LSF: it starts real blocks, and ends them as the manuals say.

What the fake does is in `fakes/README.md`; nothing here has been seen on a real one.
"""

import os
import sys
from functools import partial

import pytest
from fakes_here import FakeHere, Gate, ask_often, command, ended, in_a_line, opened, until_up, where
from waiting import logged, until, until_files

from grainlike import Cores, LaunchError, Nodes, delayed, gather, info, start
from grainlike.launch import LSF

pytestmark = pytest.mark.asyncio


@pytest.fixture
def batch(request, tmp_path, monkeypatch):
    """A fake LSF that this test's commands find, in which nothing is left when it has ended."""
    with FakeHere(tmp_path / "lsf", "lsf", **getattr(request, "param", {})) as started:
        for name, value in started.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        yield started
        assert started.in_queue() == []


@pytest.fixture(autouse=True)
def often_listed(monkeypatch):
    """LSF is asked every second, and heads that close wait for it."""
    ask_often(monkeypatch)


@pytest.fixture
def gate(tmp_path):
    """Gate at which jobs wait."""
    return Gate(tmp_path / "gate")


def lsf_pool(resources="cores=1", **keys):
    """Return a pool whose blocks last five minutes, unless said otherwise."""
    return LSF(resources, **{"walltime": "0:05:00", "python": sys.executable, **keys})


# --- before anything is submitted ------------------------------------------------------------------------------------


async def test_up_dry_prints_script_and_answer_and_leaves_nothing(batch):
    asked = ("--resources", "cores=2 memory=100Mi", "--walltime", "0:05:00", "--queue", "work")
    code, out, err = await command("up", "lsf", "--dry", *asked)
    assert (code, err) == (0, "")
    assert out.startswith("$ bsub\n#!/bin/bash -l\n#BSUB -J gl")
    assert "#BSUB -W 0:05" in out.splitlines()
    assert out.splitlines()[-1] == "Job <1> is submitted to queue <work>.", "it was taken, on hold"
    assert batch.jobs() == {"1": "EXIT"}, "and removed"


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (("--queue", "nowhere"), 1, "nowhere: No such queue. Job not submitted."),
        (("--queue", "minute"), 1, "RUNLIMIT: Cannot exceed queue's hard limit(s). Job not submitted."),
        (("--queue", "closed"), 1, "closed: Queue has been closed. Job not submitted."),
        (("--nodes", "9", "--max", "9"), 1, "Too many processors requested. Job not submitted."),
        (("--", "-R", "rusage[colour=1]"), 1, "Bad resource name: colour. Job not submitted."),
        (("--", "-n", "9"), 2, "-n: write nodes and resources instead"),
        (("--", "-W", "9"), 2, "-W: write walltime instead"),
        (("--", "-R", "span[hosts=1]"), 2, "-R span: write nodes and resources instead"),
        (("--", "-J", "mine"), 2, "-J: write nothing (a block is found by its name) instead"),
        (("--", "-Is"), 2, "-Is: it does not go with a block"),
    ],
)
async def test_up_dry_of_what_is_refused_has_the_words(batch, more, code, words):
    found = await command("up", "lsf", "--dry", "--resources", "cores=1", "--walltime", "0:05:00", *more)
    assert found[0] == code
    assert words in in_a_line(found[2])
    assert batch.jobs() == {}


# --- up and down -----------------------------------------------------------------------------------------------------


async def test_three_workers_are_three_blocks_and_nothing_is_left_when_they_are_taken_down(batch):
    asked = lsf_pool("cores=2 memory=500Mi token=cpu", min=3, max=3, walltime="1:00:00")
    async with opened() as executor:
        pool = await executor.up(asked, name="cpu")
        rows = await until_up(executor, 3)
        assert [row.label for row in rows] == ["cpu-1", "cpu-2", "cpu-3"]
        assert sorted(row.native for row in rows) == sorted(batch.jobs())
        assert {worker.name for worker in executor.workers()} == {"cpu-1.0", "cpu-2.0", "cpu-3.0"}
        for worker in executor.workers():
            assert worker.resources.units == {**asked.offer.units}
        assert (await (where @ Cores(2))())[0] in batch.jobs()
        await until(lambda: all(3000 < (row.left_s or 0) <= 3600 for row in executor.blocks()))
        await pool.down()
        assert executor.pools() == executor.workers() == []
        assert batch.in_queue() == []
        assert ended(executor) == dict.fromkeys(("cpu-1", "cpu-2", "cpu-3"), "the pool is taken down")


async def test_the_command_line_tells_how_each_block_ended(batch):
    async with opened() as executor:
        await executor.up(lsf_pool(min=1), name="cpu")
        (row,) = await until_up(executor)
        batch.end(row.native)
        await until(lambda: "cpu-1" in ended(executor))
        code, out, err = await command("blocks", "--all", "--json")
        assert (code, err) == (0, "")
        assert "TERM_OWNER: job killed by owner" in out


async def test_a_refused_queue_is_told_at_the_prompt_in_words_of_lsf(batch):
    with pytest.raises(LaunchError, match="nowhere: No such queue") as caught:
        async with opened(lsf_pool(queue="nowhere", min=1)):
            pytest.fail("it opened")
    assert caught.value.command == ("bsub",)
    assert batch.jobs() == {}


async def test_a_block_of_two_nodes_has_a_worker_on_each_and_runs_a_gang(batch, tmp_path):
    setup = ["export COLOUR='red and blue'"]
    asked = lsf_pool("cores=2", nodes=2, min=2, max=2, setup=setup, scratch=str(tmp_path / "scratch"))
    async with opened(asked) as executor:
        (row,) = await until_up(executor, 2)
        assert set(batch.jobs()) == {row.native}
        assert {worker.name for worker in executor.workers()} == {"lsf-1.0", "lsf-1.1"}
        assert {worker.host for worker in executor.workers()} == {"n1", "n2"}

        @delayed
        async def over_all():
            return os.environ["COLOUR"], os.environ["LSB_JOBID"], os.environ["TMPDIR"]

        colour, native, scratch = await (over_all @ Nodes(2, each=Cores(2)))()
        assert (colour, native) == ("red and blue", row.native)
        assert scratch.startswith(str(tmp_path / "scratch" / "lsf-1."))


@pytest.mark.parametrize("nodes", [1, 2])
async def test_jobs_of_a_block_that_others_end_clean_up_and_run_elsewhere(batch, gate, nodes):
    async with opened(lsf_pool(nodes=nodes, max=nodes)) as executor:
        jobs = [start(gate.job(number)) for number in range(nodes)]
        await until_files(gate.folder, lambda: all(gate.attempts(number) for number in range(nodes)))
        (row,) = await until_up(executor, nodes)
        batch.end(row.native)
        await until_files(gate.folder, lambda: all(gate.cleaned(number) for number in range(nodes)))
        gate.open()
        assert row.native not in {await job for job in jobs}
        assert "TERM_OWNER" in ended(executor)["lsf-1"]
        assert executor.report().failed == 0


@pytest.mark.parametrize("batch", [{"sequential_signals": False}], indirect=True)
async def test_jobs_of_a_parallel_block_that_is_killed_at_once_run_elsewhere(batch, gate):
    async with opened(lsf_pool("cores=2", nodes=2, max=2)) as executor:
        job = start(gate.job())
        await until_files(gate.folder, gate.attempts)
        (row,) = await until_up(executor, 2)
        batch.end(row.native)
        await until(lambda: "lsf-1" in ended(executor))
        gate.open()
        assert await job != row.native
        assert gate.cleaned() == [], "LSF sends such a job nothing but SIGKILL"


# --- faults ----------------------------------------------------------------------------------------------------------


async def test_a_submission_that_was_taken_and_never_answered_is_adopted(batch, caplog):
    hangs = batch.fault("bsub", "hang")
    async with opened(lsf_pool(max=4)) as executor:
        job = start((where @ Cores(1))())
        native, _ = await job
        await until(lambda: executor.blocks() and executor.blocks()[0].native)
        await until(lambda: batch.faults("bsub"))  # the job may have ended before it came so far
        hangs.unlink()
        await logged(caplog, "block lsf-1: it is not clear whether it was submitted")
        assert [(row.label, row.native) for row in executor.blocks()] == [("lsf-1", native)]
        assert set(batch.jobs()) == {native}
        assert ended(executor) == {}


async def test_while_no_listing_comes_nothing_is_submitted_and_nothing_ended(batch, gate):
    async with opened(lsf_pool(max=2)) as executor:
        first = start(gate.job(0))
        (row,) = await until_up(executor)
        fails = batch.fault("bjobs", "fail", "LSF is down. Please wait ...")
        await until(lambda: batch.faults("bjobs") >= 2)
        second = start(gate.job(1))
        await until(lambda: executor.pools()[0].wanted == 1)
        assert "LSF is down" in executor.pools()[0].why
        assert [(row.label, row.state) for row in executor.blocks()] == [("lsf-1", "up")]
        fails.unlink()
        await until_up(executor, 2)
        await until_files(gate.folder, partial(gate.attempts, 1))  # it may go to the first, once that is free
        assert set(batch.jobs()) > {row.native}
        gate.open()
        assert len({await first, await second}) == 2


# --- limits of time --------------------------------------------------------------------------------------------------


async def test_a_block_whose_run_limit_is_cut_ends_before_it_and_its_job_runs_in_the_next(batch, gate):
    async with opened(lsf_pool(walltime="2:00:00", margin="0:30:00")) as executor:
        job = start(gate.job())
        (row,) = await until_up(executor)
        await until_files(gate.folder, gate.attempts)
        await until(lambda: 6000 < (executor.blocks()[0].left_s or 0) <= 7200)
        batch.say("bmod", "-W", "0:30", row.native)
        await until_files(gate.folder, gate.cleaned)
        assert "walltime" in gate.cleaned()[0]
        gate.open()
        assert await job != row.native
        assert (info(job).attempt, executor.report().failed) == (2, 0)
        await until(lambda: "lsf-1" in ended(executor))
        assert batch.jobs()[row.native] == "DONE", "by itself, before LSF would have"


async def test_a_block_that_lsf_tells_of_its_limit_leaves(batch, gate, tmp_path):
    access = tmp_path / "state" / "grainlike" / "current" / "worker.json"
    async with opened() as executor:
        start_worker = f"exec {sys.executable} -m grainlike_worker --head {access} --resources cores=1"
        batch.say("bsub", "-W", "0:05", stdin=f"#!/bin/bash -l\n{start_worker}\n")
        await until(executor.workers)
        job = start(gate.job())
        await until_files(gate.folder, gate.attempts)
        batch.say("bmod", "-W", "0:00", "1")
        await until_files(gate.folder, gate.cleaned)
        await until(lambda: batch.jobs()["1"] == "EXIT")
        gate.open()
        batch.say("bsub", "-W", "1:00", stdin=f"#!/bin/bash -l\n{start_worker}\n")
        assert await job == "2"
        batch.end("2")
        await until(lambda: batch.in_queue() == [])


# --- by hand ---------------------------------------------------------------------------------------------------------

BY_HAND = """\
#!/bin/bash -l
{directives}
#BSUB -o {folder}/out
exec {python} -m grainlike_worker --head {access}
"""


@pytest.mark.parametrize(
    ("directives", "gpus"),
    [
        ("#BSUB -n 2\n#BSUB -R span[hosts=1]\n#BSUB -M 300MB\n#BSUB -W 1:00\n#BSUB -gpu num=1", 1),
        ("#BSUB -n 4\n#BSUB -R span[ptile=2]\n#BSUB -M 300MB\n#BSUB -W 1:00", 0),
    ],
)
async def test_a_worker_started_by_hand_offers_what_its_job_was_granted(batch, directives, gpus, tmp_path):
    async with opened() as executor:
        access = tmp_path / "state" / "grainlike" / "current" / "worker.json"
        script = BY_HAND.format(directives=directives, folder=tmp_path, python=sys.executable, access=access)
        assert batch.say("bsub", stdin=script) == "Job <1> is submitted to default queue <work>."
        await until(executor.workers)
        (worker,) = executor.workers()
        assert len(worker.resources.cores) == 2
        assert worker.resources.memory == 300 * 2**20
        assert len(worker.resources.gpus) == gpus
        assert 3000 < worker.resources.walltime <= 3600
        assert await gather(*((where @ Cores(2))() for _ in range(2))) == [("1", "n1")] * 2
        batch.end("1")
        await until(lambda: executor.workers() == [])
        await until(lambda: batch.in_queue() == [])
