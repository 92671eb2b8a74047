"""What became of each job: asked of an executor, of a head elsewhere, and by the command line."""

import json
import re
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from anyio.lowlevel import checkpoint
from limits import LIMIT_S
from plain_calls import double, triple, unsteady

from grainlike import Cores, Executor, ThreadBackend, UnsatisfiableError, cancel, connect, delayed, gather, info, start

TLS = "tcp://127.0.0.1:0"


@pytest.fixture(autouse=True)
def private_state(tmp_path, monkeypatch):
    """Access files of a test are its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


async def doubled(values):
    await gather([(double @ Cores(1))(x) for x in values], return_exceptions=True)


@pytest.mark.anyio
async def test_an_executor_tells_what_became_of_its_jobs_when_it_has_closed_too():
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(2), on_failure="continue") as executor:
            assert await executor.history() == []
            await doubled(range(10))
            assert await (triple @ Cores(1))((triple @ Cores(1))(1)) == 9
            waits_ = start((triple @ Cores(3))(1))
            with pytest.raises(UnsatisfiableError):
                await waits_
            begun = datetime.now(UTC)
        jobs = await executor.history()
        assert len(jobs) == 13
        assert sorted(job.job for job in jobs) == list(range(1, 14))
        [bad] = await executor.history(outcomes=["failed"], name="double")
        assert (bad.name, bad.error, bad.worker, bad.attempts) == ("double", "ValueError: 7 is unlucky", "local", 1)
        assert bad.ran_s is not None
        assert bad.queued_s is not None
        assert (bad.slots.startswith("cores="), bad.peak_memory > 0, bad.program) == (True, True, "")
        [never] = await executor.history(outcomes=["failed"], name="triple")
        assert (never.error.split(":")[0], never.ran_s, never.worker) == ("UnsatisfiableError", None, "")
        assert len(await executor.history(name="dou*")) == 10
        assert len(await executor.history(most=4)) == 4
        assert await executor.history(since=begun + timedelta(hours=1)) == []
        assert len(await executor.history(since=timedelta(hours=1))) == 13


@pytest.mark.anyio
async def test_wrong_questions_are_refused():
    async with Executor(local=Cores(1)) as executor:
        with pytest.raises(ValueError, match="'bad' is none"):
            await executor.history(outcomes=["bad"])
        with pytest.raises(ValueError, match="1 or more; 0 is not"):
            await executor.history(most=0)
        with pytest.raises(ValueError, match="at most 200 characters; this has 201"):
            await executor.history(name="a" * 201)
    with pytest.raises(RuntimeError, match=r"is not open: write `async with Executor\(\.\.\.\) as ex:`"):
        await Executor(local=Cores(1)).history()
    async with Executor(backend=ThreadBackend(1)) as executor:
        with pytest.raises(RuntimeError, match="in its own records"):
            await executor.history()


@pytest.mark.anyio
async def test_a_client_and_the_command_line_ask_the_head(told):
    with anyio.fail_after(LIMIT_S):
        async with Executor(listen=TLS, local=Cores(1), on_failure="continue"):
            async with connect(on_failure="continue") as client:
                await client.wait_for_workers(1)
                await doubled(range(6, 9))
                waits_ = start((triple @ Cores(2))(1))
                [number] = [(await client.explain(waits_)).job]
                cancel(waits_)
                await (triple @ Cores(1))(1)
                found = {job.job: job for job in await client.history()}
                assert found[number].outcome == "cancelled"
                assert {job.program for job in found.values()} == {found[number].program}
                assert found[number].program
                [bad] = await client.history(outcomes=["failed"])
                assert (bad.name, bad.error) == ("double", "ValueError: 7 is unlucky")
            code, out, _ = await told("jobs", "--failed")
            assert code == 0
            assert "ValueError: 7 is unlucky" in out
            assert "outcome" not in out, "all have plainly failed"
            assert "triple" not in out
            ended = json.loads((await told("jobs", "--ended", "--json", "-n", 2))[1])
            assert [job["name"] for job in ended["ended"]] == ["triple", "triple"]
            both = json.loads((await told("jobs", "--all", "--name", "dou*", "--since", "1h", "--json"))[1])
            assert (both["jobs"], both["total"], len(both["ended"])) == ([], 0, 3)
            code, out, _ = await told("jobs", "--failed", "--by-reason", "--error", "UNLUCKY", "--worker", "loc*")
            assert code == 0
            row, note = out.splitlines()[2:]
            assert re.fullmatch(rf"1  double  local  +\S+ +{bad.job}  ValueError: 7 is unlucky", row.strip())
            assert note == "latest is the number of the last such job", "no # is there to be explained"
            assert (await told("jobs", "--all"))[1].split()[0] == "job", "none waits or runs, which is not said first"
            reasons = json.loads((await told("jobs", "--failed", "--by-reason", "--json"))[1])
            assert (reasons["failures"], reasons["reasons"][0]["latest"]) == (1, bad.job)
            assert "no such jobs have failed" in (await told("jobs", "--failed", "--by-reason", "--worker", "x"))[1]
            hint = "; it looks into the first line of each error, and the last line that a program wrote;"
            assert hint not in (await told("jobs", "--failed", "--worker", "x"))[1]
            for listing in (("--failed",), ("--failed", "--by-reason")):
                _, out, _ = await told("jobs", *listing, "--error", "lucky?")
                assert out.startswith("no such jobs have ")
                assert hint in out
            code, out, _ = await told("explain", bad.job)
            assert code == 0
            time = r"[\d.]+ m?s"
            first, error, traceback, where, request, times, enforced, whose = out.splitlines()
            assert first.startswith(f"job {bad.job}, double: failed in attempt 1, ended ")
            assert request == "  asked for: cores=1"
            assert (error, where.split(" cores=")[0]) == ("  ValueError: 7 is unlucky", "  worker: local, slots")
            assert re.fullmatch(rf"  queued for {time}, ran for {time}, CPU {time}, peak memory \S+", times)
            assert enforced.startswith("  enforced: cores ")
            assert whose == f"  client: {bad.program}"
            assert traceback == f"  traceback: grainlike logs {bad.job}"
            code, out, err = await told("logs", bad.job)
            assert (code, out) == (0, "")
            assert err.startswith("called with (7)\nTraceback (most recent call last):\n")
            assert err.endswith("\nValueError: 7 is unlucky\nand more\n")
            plain = json.loads((await told("explain", bad.job, "--json"))[1])
            assert (plain["state"], plain["job"], plain["outcome"]) == ("ended", bad.job, "failed")
            assert "it did not run" in (await told("explain", number))[1]
            code, _, why = await told("cancel", bad.job)
            assert code == 1
            assert f"there is no job {bad.job} any more: it has ended. double failed after " in why
            assert "no job 99 yet" in (await told("explain", 99))[2]
            code, _, why = await told("worker", "drain", "a" * 201)
            assert (code, why) == (1, "grainlike: a pattern has at most 200 characters; this has 201\n")
            code, out, _ = await told("report", "--name", "dou*")
            assert code == 0
            assert "4 succeeded" not in out
            assert "2 succeeded, 1 failed" in out
            assert out.endswith("cores busy and ran: median, 95th percentile, most; peak memory: the latter two\n")
            assert "triple" not in out
            plain = json.loads((await told("report", "--since", "1h", "--json"))[1])
            assert (plain["succeeded"], plain["failed"], plain["cancelled"]) == (3, 1, 1)
            of = {(row["name"], row["asked"]): row for row in plain["functions"]}
            assert set(of) == {("double", "cores=1"), ("triple", "cores=1"), ("triple", "cores=2")}
            assert of["triple", "cores=2"]["outcomes"] == {"cancelled": 1}
            assert of["double", "cores=1"]["ran"] == 3
            assert of["double", "cores=1"]["suggested"] is None, "no memory was asked for, and they ran for too short"
            assert json.loads((await told("report", "--name", "nobody", "--json"))[1])["functions"] == []
            assert (await told("report", "--since", "yesterday"))[0] == 2
            assert "no such jobs" in (await told("jobs", "--ended", "--name", "nobody"))[1]
            code, out, _ = await told("jobs")
            assert (code, out) == (0, "no jobs\n`grainlike jobs --ended` lists those that have ended\n")
            out = (await told("jobs", "--ended", "-n", 1))[1]
            assert "outcome" in out
            assert "there may be more" in out


@pytest.mark.anyio
async def test_each_attempt_of_a_job_is_told_with_its_error_and_what_was_enforced(told, tmp_path):
    path = tmp_path / "tries"
    path.write_text("")
    with anyio.fail_after(LIMIT_S):
        async with Executor(listen=TLS, local=Cores(1)) as executor:
            assert await (unsteady @ Cores(1))(path) == 3
            await (triple @ Cores(1))(1)
            once, job = await executor.history()
            assert (once.earlier, job.attempts, job.outcome) == ([], 4, "succeeded")
            assert [(one.attempt, one.outcome, one.error) for one in job.earlier] == [
                (1, "failed", "ValueError: 0 is too few"),
                (2, "crashed", "killed by SIGKILL"),
                (3, "failed", "ValueError: 2 is too few"),
            ]
            assert {(one.worker, one.slots) for one in job.earlier} == {("local", job.slots)}
            began = [one.began_at for one in job.earlier]
            assert began == sorted(began)
            assert all(one.ran_s > 0 for one in job.earlier)
            assert (began[-1] + job.earlier[-1].ran_s) <= job.ended_at - job.ran_s
            assert f"cores={job.receipt.affinity}" == job.slots
            assert job.receipt == once.receipt
            lines = (await told("explain", job.job))[1].splitlines()
            assert [line.split(",")[0] for line in lines[-4:]] == [
                f"  enforced: cores {job.receipt.affinity[0]}; no limit of memory",
                *("  attempt 1: failed", "  attempt 2: crashed", "  attempt 3: failed"),
            ]
            assert lines[-1].endswith(": ValueError: 2 is too few")
            plain = json.loads((await told("explain", job.job, "--json"))[1])
            assert [one["outcome"] for one in plain["earlier"]] == ["failed", "crashed", "failed"]
            code, out, headings = await told("logs", job.job)
            assert (code, out) == (0, "try 0\ntry 2\ntry 3\n")
            assert [line[:19] for line in headings.splitlines() if line.startswith("[attempt")] == [
                *("[attempt 1: failed,", "[attempt 2: crashed", "[attempt 3: failed,", "[attempt 4: succeed"),
            ]
            assert "[attempt" not in "".join((await told("logs", once.job))[1:])
            as_json = (await told("logs", job.job, "--json"))[1].splitlines()
            assert [json.loads(line)["attempt"] for line in as_json if '"try ' in line] == [1, 3, 4]


@delayed(retries=1)
async def twice(path, gate):
    if not path.exists():
        path.touch()
        raise ValueError("the first time")
    await GATES[gate].wait()


GATES: dict[str, anyio.Event] = {}


@pytest.mark.anyio
async def test_a_job_that_runs_again_is_told_with_the_attempts_before(told, tmp_path):
    GATES["twice"] = anyio.Event()
    with anyio.fail_after(LIMIT_S):
        async with Executor(listen=TLS, local=Cores(1)) as executor:
            waits_ = start((twice @ Cores(1))(tmp_path / "tries", "twice"))
            while (await executor.explain(waits_)).attempt < 2:
                await checkpoint()
            out = (await told("explain", info(waits_).job))[1]
            assert "attempt 1: failed, on worker local" in out
            assert out.endswith(": ValueError: the first time\n")
            GATES["twice"].set()
            await waits_


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--ended", "--failed"], "choose one"),
        (["--name", "fit"], "are of ended jobs"),
        (["--worker", "n1"], "are of ended jobs"),
        (["--ended", "--by-reason"], "say --failed"),
        (["--ended", "--error", ""], "an empty pattern"),
        (["--ended", "--since", "yesterday"], "'yesterday' is no time"),
        (["--ended", "--since", "2026-13-01"], "no time"),
        (["--ended", "--name", ""], "an empty pattern"),
        (["--all", "--name", "a" * 201], "at most 200 characters"),
    ],
)
async def test_wrong_options_are_refused_before_a_head_is_asked(told, words, why):
    code, _, complained = await told("jobs", *words)
    assert (code, why in " ".join(complained.replace("│", " ").split())) == (2, True), complained


@pytest.mark.anyio
async def test_without_a_head_it_is_exit_3(told):
    assert (await told("jobs", "--ended"))[0] == 3
