"""Pools of workers on a fake PBS, as OpenPBS and as Torque: it starts real blocks, and ends them as the manuals say.

What the fake does is in `fakes/README.md`; nothing here has been seen on a real one.
"""

import asyncio
import json
import os
import sys
from contextlib import nullcontext
from functools import partial

import pytest
from fakes_here import FakeHere, Gate, ask_often, command, ended, in_a_line, opened, until_up, where
from waiting import logged, until, until_files

from grainlike import Cores, LaunchError, Nodes, connect, delayed, gather, info, start
from grainlike.launch import PBS

pytestmark = pytest.mark.asyncio

BOTH = pytest.mark.parametrize("batch", ["openpbs", "torque"], indirect=True)


@pytest.fixture
def batch(request, tmp_path, monkeypatch):
    """A fake PBS that this test's commands find, from which nothing is left when it has ended."""
    system, site = request.param if isinstance(request.param, tuple) else (request.param, {})
    with FakeHere(tmp_path / "pbs", system, **site) as started:
        for name, value in started.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        yield started
        assert started.in_queue() == []


@pytest.fixture(autouse=True)
def often_listed(monkeypatch):
    """PBS is asked every second, and heads that close wait for it."""
    ask_often(monkeypatch)


@pytest.fixture
def gate(tmp_path):
    """Gate at which jobs wait."""
    return Gate(tmp_path / "gate")


def pbs_pool(batch, resources="cores=1", **keys):
    """Return a pool whose blocks last five minutes, unless said otherwise."""
    torque = batch.system == "torque"
    return PBS(resources, **{"walltime": "0:05:00", "torque": torque, "python": sys.executable, **keys})


# --- before anything is submitted ------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", ["openpbs"], indirect=True)
async def test_up_dry_prints_script_and_answer_and_leaves_nothing(batch):
    asked = ("--resources", "cores=2 memory=100Mi", "--walltime", "0:05:00", "--queue", "work")
    code, out, err = await command("up", "pbs", "--dry", *asked)
    assert (code, err) == (0, "")
    assert out.startswith("$ qsub\n#!/bin/bash -l\n#PBS -N gl")
    assert "#PBS -l select=1:ncpus=2:mem=356mb:mpiprocs=1" in out.splitlines()
    assert out.splitlines()[-1] == "1.pbs1", "it was taken, on hold"
    assert batch.jobs() == {"1.pbs1": "F"}, "and removed"


@pytest.mark.parametrize("batch", ["openpbs"], indirect=True)
@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (("--queue", "nowhere"), 1, "qsub: Unknown queue"),
        (("--queue", "minute"), 1, "qsub: Job violates queue and/or server resource limits"),
        (("--queue", "closed"), 1, "qsub: Queue is not enabled"),
        (("--", "-l", "colour=red"), 1, "qsub: Unknown resource Resource_List.colour"),
        (("--", "-l", "select=9"), 2, "-l select: write nodes and resources instead"),
        (("--", "-l", "walltime=9"), 2, "-l walltime: write walltime instead"),
        (("--", "-J", "1-3"), 2, "-J: write max instead"),
        (("--", "-N", "mine"), 2, "-N: write nothing (a block is found by its name) instead"),
        (("--", "-I"), 2, "-I: it does not go with a block"),
    ],
)
async def test_up_dry_of_what_is_refused_has_the_words(batch, more, code, words):
    found = await command("up", "pbs", "--dry", "--resources", "cores=1", "--walltime", "0:05:00", *more)
    assert found[0] == code
    assert words in in_a_line(found[2])
    assert batch.jobs() == {}


@pytest.mark.parametrize("batch", ["torque"], indirect=True)
@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"queue": "nowhere"}, "qsub: submit error (Unknown queue MSG=requested queue not found)"),
        (
            {"queue": "minute"},
            "qsub: submit error (Job exceeds queue resource limits MSG=cannot satisfy queue max walltime",
        ),
    ],
)
async def test_torque_refuses_in_words_of_its_own(batch, keys, words):
    with pytest.raises(LaunchError) as caught:
        await pbs_pool(batch, **keys).check()
    assert words in caught.value.words
    assert batch.jobs() == {}


ASKED = ("--resources", "cores=1", "--walltime", "0:05:00", "--max", "1")
SILENT = "Connection refused\nqstat: cannot connect to server pbs1 (errno=15010)"
SAID = "PBS does not answer: Connection refused; qstat: cannot connect to server pbs1 (errno=15010)"


@pytest.mark.parametrize("batch", ["openpbs"], indirect=True)
async def test_up_says_that_pbs_does_not_answer_and_the_pool_goes_on_when_it_does(batch, caplog):
    async with opened() as executor:
        fails = batch.fault("qstat", "fail", SILENT)
        code, out, err = await command("up", "pbs", *ASKED)
        assert (code, out) == (1, "")
        first, second, third = err.splitlines()
        assert first == f"grainlike: pool pbs is set, but {SAID}"
        assert second.endswith("submits blocks once it answers; until then `grainlike pools` says so")
        assert third == "  to give the pool up: grainlike down pbs"
        assert "pbs does not answer: Connection refused" in (await command("pools"))[1]
        code, out, err = await command("up", "pbs", *ASKED, "--json")
        assert (code, json.loads(out)["silent"]) == (1, SAID)
        await executor.up(pbs_pool(batch, max=1), name="pbs")
        await logged(caplog, f"pool pbs is set, but {SAID}")
        assert "paused" not in (await command("pools"))[1]
        fails.unlink()
        assert (await (where @ Cores(1))())[0] in batch.jobs()
        code, out, err = await command("up", "pbs", *ASKED)
        assert (code, err) == (0, "")
        assert "does not answer" not in (await command("pools"))[1]


@pytest.mark.parametrize("batch", ["openpbs"], indirect=True)
async def test_up_says_that_a_first_block_is_looked_for_while_pbs_does_not_answer(batch, tmp_path, monkeypatch):
    monkeypatch.setattr("grainlike.fleet._submissions.LOOK_S", 0.1)
    _in_place_of(tmp_path, monkeypatch, "qsub", f"echo '{SILENT}' >&2; exit 255")
    async with opened():
        fails = batch.fault("qstat", "fail", SILENT)
        code, out, err = await command("up", "pbs", *ASKED, "--min", "1")
        assert (code, out) == (1, "")
        assert err.splitlines()[0] == f"grainlike: pool pbs is set, but {SAID}"
        assert err.splitlines()[1] == "  block pbs-1 may have been taken: it is looked for by its name"
        fails.unlink()
        assert (await command("down", "pbs"))[0] == 0


@pytest.mark.parametrize("batch", ["openpbs"], indirect=True)
async def test_up_waits_only_so_long_for_a_pbs_that_is_silent(batch, tmp_path, monkeypatch):
    monkeypatch.setattr("grainlike.head.fleet._driver.ASK_S", 0.2)
    _in_place_of(tmp_path, monkeypatch, "qstat", "exec sleep 1000")
    async with opened() as executor:
        code, out, err = await command("up", "pbs", *ASKED)
        assert (code, out) == (1, "")
        assert err.splitlines()[0] == "grainlike: pool pbs is set, but PBS has not answered for 0.2 s"
        assert [row.pool for row in executor.pools()] == ["pbs"]


@pytest.mark.parametrize("batch", ["openpbs"], indirect=True)
async def test_who_sets_a_pool_again_is_told_whether_pbs_answers_now(batch, monkeypatch):
    async with opened():
        monkeypatch.setattr("grainlike.fleet._listing.PERIOD_S", 1000.0)
        fails = batch.fault("qstat", "fail", SILENT)
        assert (await command("up", "pbs", *ASKED))[0] == 1
        fails.unlink()
        code, _, err = await command("up", "pbs", *ASKED)
        assert (code, err) == (0, "")


@pytest.mark.parametrize("batch", ["openpbs"], indirect=True)
async def test_who_waits_for_no_worker_is_told_by_the_code_that_pbs_does_not_answer(batch):
    async with opened():
        fails = batch.fault("qstat", "fail", SILENT)
        code, out, err = await command("up", "pbs", *ASKED, "--wait")
        fails.unlink()
        assert (code, out) == (1, "")
        assert err.startswith(f"grainlike: pool pbs is set, but {SAID}")


@pytest.mark.parametrize("batch", ["openpbs"], indirect=True)
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_pool_that_was_up_stays_so_when_a_change_of_it_is_cancelled(batch, tmp_path, monkeypatch, elsewhere):
    async with opened() as executor, connect() if elsewhere else nullcontext(executor) as program:
        await executor.up(pbs_pool(batch, min=1), name="pbs")
        [before] = await until_up(executor)
        waits = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"
        silent = f"echo >{tmp_path}/asked; {waits}; exit 255"  # and then no list without blocks
        path = _in_place_of(tmp_path, monkeypatch, "qstat", silent)
        await until_files(tmp_path, (tmp_path / "asked").exists)
        change = asyncio.create_task(program.up(pbs_pool(batch, min=1, max=3), name="pbs"))
        await until(lambda: executor.pools()[0].max == 3)
        change.cancel()
        with pytest.raises(asyncio.CancelledError):
            await change
        if elsewhere:
            await program.pool("pbs").scale(1, 2)  # after what the cancellation has sent
        path.unlink()
        (tmp_path / "go").touch()
        assert [(row.label, row.state) for row in executor.blocks()] == [(before.label, "up")]
        assert executor.pools()[0].why == ""


def _in_place_of(tmp_path, monkeypatch, program, text):
    """Have a head find another program in place of one of PBS's; return its path."""
    path = tmp_path / "bin" / program
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    return path


# --- up and down -----------------------------------------------------------------------------------------------------


@BOTH
async def test_three_workers_are_three_blocks_and_nothing_is_left_when_they_are_taken_down(batch):
    asked = pbs_pool(batch, "cores=2 memory=500Mi token=cpu", min=3, max=3, walltime="1:00:00")
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


@BOTH
async def test_the_command_line_tells_how_each_block_ended(batch):
    async with opened() as executor:
        await executor.up(pbs_pool(batch, min=1), name="cpu")
        (row,) = await until_up(executor)
        batch.end(row.native)
        await until(lambda: "cpu-1" in ended(executor))
        code, out, err = await command("blocks", "--all")
        assert (code, err) == (0, "")
        (line,) = [line for line in out.splitlines() if "cpu-1" in line]
        assert row.native in line
        assert "ended" in line
        assert "exit code" in line


@BOTH
async def test_a_block_of_two_nodes_has_a_worker_on_each_and_runs_a_gang(batch):
    async with opened(pbs_pool(batch, "cores=2", nodes=2, min=2, max=2, setup=["export COLOUR=red"])) as executor:
        (row,) = await until_up(executor, 2)
        assert set(batch.jobs()) == {row.native}
        assert {worker.name for worker in executor.workers()} == {"pbs-1.0", "pbs-1.1"}
        assert {worker.host for worker in executor.workers()} == {"n1", "n2"}

        @delayed
        async def over_all():
            return os.environ["COLOUR"], os.environ["PBS_JOBID"]

        assert await (over_all @ Nodes(2, each=Cores(2)))() == ("red", row.native)
        hosts = {(await one)[1] for one in [start((where @ Cores(2))()) for _ in range(2)]}
        assert hosts <= {"n1", "n2"}


@BOTH
async def test_jobs_of_a_block_that_others_end_clean_up_and_run_elsewhere(batch, gate):
    async with opened(pbs_pool(batch, nodes=2, max=2)) as executor:
        jobs = [start(gate.job(number)) for number in range(2)]
        await until_files(gate.folder, lambda: gate.attempts(0) and gate.attempts(1))
        (row,) = await until_up(executor, 2)
        batch.end(row.native)
        await until_files(gate.folder, lambda: gate.cleaned(0) and gate.cleaned(1))
        gate.open()
        natives = {await job for job in jobs}
        assert row.native not in natives
        assert "pbs-1" in ended(executor)
        assert executor.report().failed == 0


# --- faults ----------------------------------------------------------------------------------------------------------


@BOTH
async def test_a_submission_that_was_taken_and_never_answered_is_adopted(batch, caplog):
    hangs = batch.fault("qsub", "hang")
    async with opened(pbs_pool(batch, max=4)) as executor:
        job = start((where @ Cores(1))())
        await until(lambda: batch.jobs())
        native, _ = await job
        await until(lambda: executor.blocks() and executor.blocks()[0].native)
        await until(lambda: batch.faults("qsub"))  # the job may have ended before it came so far
        hangs.unlink()
        await logged(caplog, "block pbs-1: it is not clear whether it was submitted")
        assert [(row.label, row.native) for row in executor.blocks()] == [("pbs-1", native)]
        assert set(batch.jobs()) == {native}
        assert ended(executor) == {}


@BOTH
async def test_while_no_listing_comes_nothing_is_submitted_and_nothing_ended(batch, gate):
    async with opened(pbs_pool(batch, max=2)) as executor:
        first = start(gate.job(0))
        (row,) = await until_up(executor)
        fails = batch.fault("qstat", "fail", "Connection refused\nqstat: cannot connect to server pbs1 (errno=15010)")
        await until(lambda: batch.faults("qstat") >= 3)  # a listing asks twice: the one before has failed
        second = start(gate.job(1))
        await until(lambda: executor.pools()[0].wanted == 1)
        assert "cannot connect to server" in executor.pools()[0].why
        assert [(row.label, row.state) for row in executor.blocks()] == [("pbs-1", "up")]
        fails.unlink()
        await until_up(executor, 2)
        await until_files(gate.folder, partial(gate.attempts, 1))  # it may go to the first, once that is free
        assert set(batch.jobs()) > {row.native}
        gate.open()
        assert len({await first, await second}) == 2


@pytest.mark.parametrize("batch", [("openpbs", {"history": False})], indirect=True)
async def test_a_server_that_keeps_no_history_is_listed_as_text(batch):
    assert "not configured to maintain job history" not in batch.say("qstat", "-f")
    async with opened(pbs_pool(batch, min=1, walltime="1:00:00")) as executor:
        (row,) = await until_up(executor)
        await until(lambda: 3000 < (executor.blocks()[0].left_s or 0) <= 3600)
        assert (await (where @ Cores(1))())[0] == row.native


@pytest.mark.parametrize("batch", [("torque", {"history_s": 0})], indirect=True)
async def test_a_block_that_the_listing_has_forgotten_has_ended(batch, gate):
    async with opened(pbs_pool(batch)) as executor:
        job = start(gate.job())
        (row,) = await until_up(executor)
        batch.end(row.native)
        await until(lambda: "pbs-1" in ended(executor))
        gate.open()
        assert await job != row.native


# --- limits of time --------------------------------------------------------------------------------------------------


@BOTH
async def test_a_job_that_runs_into_the_end_of_its_block_cleans_up_and_runs_in_the_next(batch, gate):
    async with opened(pbs_pool(batch, walltime="2:00:00", margin="0:30:00")) as executor:
        job = start(gate.job())
        await until_files(gate.folder, gate.attempts)
        batch.say("qalter", "-l", "walltime=0:30:00", "1.pbs1")  # with the margin, none of it is left
        await until_files(gate.folder, gate.cleaned)
        assert "walltime" in gate.cleaned()[0]
        gate.open()
        assert await job == "2.pbs1"
        assert (info(job).attempt, executor.report().failed) == (2, 0)
        await until(lambda: "pbs-1" in ended(executor))
        assert batch.jobs()["1.pbs1"] in "FC"
        assert ended(executor)["pbs-1"] == "exit code 0", "by itself, before PBS would have"


@pytest.mark.parametrize("batch", ["openpbs"], indirect=True)
async def test_another_walltime_is_followed(batch):
    async with opened(pbs_pool(batch, min=1, walltime="1:00:00")) as executor:
        (row,) = await until_up(executor)
        await until(lambda: 3000 < (executor.blocks()[0].left_s or 0) <= 3600)
        batch.say("qalter", "-l", "walltime=2:00:00", row.native)
        await until(lambda: executor.blocks()[0].left_s > 6000)


# --- by hand ---------------------------------------------------------------------------------------------------------

BY_HAND = """\
#!/bin/bash -l
{directives}
#PBS -j oe
#PBS -o {folder}/out
cd "$PBS_O_WORKDIR"
exec {python} -m grainlike_worker --head {access}
"""


@pytest.mark.parametrize(
    ("batch", "directives", "gpus"),
    [
        ("openpbs", "#PBS -l select=1:ncpus=2:mem=300mb:ngpus=1\n#PBS -l walltime=1:00:00", 1),
        ("openpbs", "#PBS -l select=2:ncpus=2:mem=300mb -l place=scatter\n#PBS -l walltime=1:00:00", 0),
        ("torque", "#PBS -l nodes=1:ppn=2:gpus=1\n#PBS -l mem=300mb,walltime=1:00:00", 1),
    ],
    indirect=["batch"],
)
async def test_a_worker_started_by_hand_offers_what_its_job_was_granted(batch, directives, gpus, tmp_path):
    async with opened() as executor:
        access = tmp_path / "state" / "grainlike" / "current" / "worker.json"
        script = BY_HAND.format(directives=directives, folder=tmp_path, python=sys.executable, access=access)
        native = batch.say("qsub", stdin=script)
        await until(executor.workers)
        (worker,) = executor.workers()
        assert len(worker.resources.cores) == 2
        assert 0 < worker.resources.memory <= 300 * 2**20
        assert len(worker.resources.gpus) == gpus
        assert 3000 < worker.resources.walltime <= 3600
        assert await gather(*((where @ Cores(2))() for _ in range(2))) == [(native, "n1")] * 2
        batch.end(native)
        await until(lambda: executor.workers() == [])
        await until(lambda: batch.in_queue() == [])


@pytest.mark.parametrize("batch", ["openpbs"], indirect=True)
async def test_a_worker_of_a_job_that_has_its_host_alone_offers_all_of_it(batch, tmp_path):
    async with opened(pbs_pool(batch, None, min=1)) as executor:
        await until_up(executor)
        (worker,) = executor.workers()
        assert len(worker.resources.cores) == len(os.sched_getaffinity(0))
        assert await (where @ Cores(1))() == (executor.blocks()[0].native, "n1")
