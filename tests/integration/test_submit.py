"""`grainlike submit`: commands as jobs (K9), on slots of this machine and on a head's workers."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from limits import LIMIT_S
from waiting import until

from grainlike import Executor, parse
from grainlike.cli import _submit, main
from grainlike.cli._commands import Command
from grainlike.cli._submit import _Submission
from grainlike.graph import node_behind
from grainlike.jobs._job import NO_PARCEL, Job

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {"PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"}
COMMAND = [sys.executable, "-m", "grainlike", "submit"]


def submit(*arguments, stdin="", cwd=None, env=()):
    environment = {**os.environ, **ENVIRONMENT, **dict(env)}
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_k7_k9_commands_are_staged_many_at_a_time_and_run_under_the_same_rules(tmp_path):
    """K5's four, with a pipe for a clock: each waits until its partner of the same round is there."""
    for name in ("first", "second"):
        os.mkfifo(tmp_path / name)
    meet = "echo here > first; cat second"
    met = "cat first; echo here > second"
    done = submit(
        "--run-once",
        "--resources",
        "gpu0=1 gpu1=1",
        "--file",
        "-",
        stdin=f"""
        -r gpu0=1 -- sh -c '{meet}; echo aaa'
        -r gpu0=1 -- sh -c 'echo bbb'
        -r "gpu0=1 gpu1=1" -- sh -c 'echo ccc; exit 3'
        -r gpu1=1 -- sh -c '{met}; echo ddd'
        -r "zzz=1 yyy=1" -- echo never
        """,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert {"[1] aaa", "[2] bbb", "[3] ccc", "[4] ddd"} <= set(done.stdout.splitlines())
    assert "never" not in done.stdout
    assert "[1] scheduled (requires gpu0=1): sh -c" in done.stderr
    assert "[1] started on local, slots gpu0=1" in done.stderr
    assert re.search(r"\[1\] completed after [\d.]+ m?s", done.stderr)
    assert re.search(r"\[3\] failed after [\d.]+ m?s: exit code 3; it wrote last: ccc", done.stderr)
    assert "[5] failed: yyy=1 zzz=1 can never be given: no worker has yyy, zzz" in done.stderr
    assert re.search(r"3 succeeded, 2 failed in [\d.]+ s\n$", done.stderr)


def test_k9_output_and_exit_code_are_kept_for_programs_too(tmp_path):
    done = submit(
        *("--run-once", "-r", "cores=1", "--env", "NEW=1", "--env", "OLD", "--json", "--"),
        *("sh", "-c", 'echo "$PWD $NEW $OLD"; exit 7'),
        cwd=tmp_path,
        env={"OLD": "2"},
    )
    assert done.returncode == 1
    [told] = json.loads(done.stdout)
    assert told["exit_code"] == 7
    assert told["state"] == "failed"
    assert told["error"] == "exit code 7"
    assert told["last_lines"] == [f"{tmp_path} 1 2"]
    assert re.fullmatch(r"cores=\[\d+\]", told["slots"])
    assert f"{tmp_path} 1 2" in done.stderr.splitlines()


def test_the_last_lines_of_a_failed_command_are_told_and_of_both_streams(tmp_path):
    many = "for i in $(seq 30); do echo out $i; done; echo why >&2; echo; false"
    done = submit(
        "--run-once", "-r", "cores=1", "--json", "--file", "-", stdin=f"-- true\n-- sh -c '{many}'", cwd=tmp_path
    )
    right, wrong = json.loads(done.stdout)
    assert right["last_lines"] == []
    assert len(wrong["last_lines"]) == 10
    assert "why" in wrong["last_lines"]
    assert re.search(r"\[2\] failed after [\d.]+ m?s: exit code 1; it wrote last: \S", done.stderr)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--run-once", "--", "true"], "give -r TEXT"),
        (["-r", "cores=1"], "give one command, after --, or a --file"),
        (["-r", "cores", "--", "true"], "parts must be KEY=VALUE"),
        (["-r", "cores=1", "--resources", "cores=1", "--", "true"], "--resources is what this machine offers"),
        (
            ["-r", "cores=1", "--run-once", "--head", "tcp://127.0.0.1:1", "--", "true"],
            "--run-once does without",
        ),
        (["--run-once", "-r", "cores=1", "--env", "NOT_SET_HERE", "--", "true"], "--env NOT_SET_HERE"),
        (["--run-once", "--resources", "cores=x", "-r", "cores=1", "--", "true"], "cores"),
        (["--run-once", "--file", os.devnull], "there is no command in"),
        (["--run-once", "-r", "cores=1", "--", ""], "the command has no name"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_runs(arguments, complaint, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["submit", *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_a_folder_that_was_removed_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert main(["submit", "--run-once", "-r", "cores=1", "--", "true"]) == 2
    assert "somebody has removed it" in capsys.readouterr().err


def test_a_program_that_is_not_there_is_named_whatever_its_name_is_written_in(tmp_path):
    commands = tmp_path / "commands"
    commands.write_bytes(b"no-such-program\n/none/caf\xe9\n/\n")
    done = submit("--run-once", "-r", "cores=1", "--file", str(commands))
    assert done.returncode == 1
    assert "s: [Errno 2] No such file or directory: 'no-such-program'" in done.stderr
    assert r"s: [Errno 2] No such file or directory: '/none/caf\udce9'" in done.stderr
    assert "s: [Errno 13] Permission denied: '/'" in done.stderr


@pytest.mark.asyncio
async def test_a_command_has_started_once_it_has_slots(capsys):
    command = Command(("sleep", "1"), parse("cores=1"))
    async with Executor(local=None) as executor:
        submission = _Submission(executor, [command], "/", {})
        [submitted] = submission._jobs
    job = node_behind(submitted.placeholder).record = Job(1, 1, None, NO_PARCEL)
    job.assigned("n1", 1)
    submission._note_start(submitted)
    assert capsys.readouterr().err == ""
    job.begin("n1", 1, "cores=[2]")
    submission._note_start(submitted)
    assert capsys.readouterr().err == "grainlike: [1] started on n1, slots cores=[2]\n"


@pytest.mark.asyncio
async def test_a_second_attempt_is_said(capsys):
    async with Executor(local=None) as executor:
        submission = _Submission(executor, [Command(("sleep", "1"), parse("cores=1"))], "/", {})
        [submitted] = submission._jobs
    job = node_behind(submitted.placeholder).record = Job(1, 1, None, NO_PARCEL)
    for attempt in (1, 2):
        job.assigned("n1", attempt)
        job.begin("n1", attempt, "cores=[2]")
        submission._note_start(submitted)
        submission._note_start(submitted)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "grainlike: [1] started on n1, slots cores=[2]"
    assert second == "grainlike: [1] started again (attempt 2) on n1, slots cores=[2]"


@pytest.mark.asyncio
async def test_why_a_command_does_not_start_is_said_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(_submit, "_REASON_S", 0.0)
    explained = 0

    async with asyncio.timeout(LIMIT_S), Executor(local=None, listen="tcp://127.0.0.1:0") as executor:
        plain = executor.explain

        async def explain(placeholder):
            nonlocal explained
            explained += 1
            return await plain(placeholder)

        monkeypatch.setattr(executor, "explain", explain)
        running = asyncio.create_task(
            _Submission(executor, [Command(("true",), parse("cores=1"))], "/", {}).run(as_json=False)
        )
        await until(lambda: explained > 2)
        running.cancel()
        await asyncio.wait([running])
    said = capsys.readouterr().err
    assert said.count("[1] Job 1 waits") == 1


def test_ctrl_c_ends_the_program_too(tmp_path):
    os.mkfifo(tmp_path / "pid")
    process = subprocess.Popen(
        [*COMMAND, "--run-once", "-r", "cores=1", "--", "sh", "-c", "echo $$ > pid; exec sleep 1000"],
        cwd=tmp_path,
        env={**os.environ, **ENVIRONMENT},
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        pid = int((tmp_path / "pid").read_text())
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert "interrupted" in said
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("as_json", [False, True])
def test_ctrl_c_tells_what_ended_and_what_did_not(tmp_path, as_json):
    os.mkfifo(tmp_path / "here")
    commands = tmp_path / "commands"
    commands.write_text("true\nsh -c 'exit 3'\nsh -c 'echo here > here; exec sleep 1000'\necho never\n")
    arguments = ["--run-once", "--resources", "slot=1", "-r", "slot=1", "--file", str(commands)]
    process = subprocess.Popen(
        [*COMMAND, *arguments, *(["--json"] if as_json else [])],
        cwd=tmp_path,
        env={**os.environ, **ENVIRONMENT},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert (tmp_path / "here").read_text() == "here\n"
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert "[3] interrupted while it ran" in said
    assert "[4] interrupted before it started" in said
    assert "1 succeeded, 1 failed, 2 interrupted in" in said
    assert "Traceback" not in said
    if as_json:
        told = [(job["exit_code"], job["error"]) for job in json.loads(out)]
        assert told == [(0, None), (3, "exit code 3"), (None, "interrupted"), (None, "interrupted")]


def test_when_nobody_reads_its_output_any_more_it_ends():
    command = [*COMMAND, "--run-once", "-r", "cores=1", "--", "yes"]
    with subprocess.Popen(
        command, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "y\n"
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(LIMIT_S) == 141
    assert said.endswith("grainlike: what is printed is read no more: commands that have not ended are cancelled\n")
    assert "Traceback" not in said
    assert "failed" not in said


def test_when_nobody_reads_what_it_says_any_more_it_ends_too():
    """A command waits for its turn: that is said, and why."""
    commands = "echo first\nsh -c 'exec sleep 1000'\n"
    command = [*COMMAND, "--run-once", "--resources", "slot=1", "-r", "slot=1", "--file", "-"]
    reads, writes = os.pipe()
    with os.fdopen(reads) as said:
        with os.fdopen(writes, "w") as told:
            process = subprocess.Popen(
                command, env={**os.environ, **ENVIRONMENT}, stdin=subprocess.PIPE, stdout=told, stderr=told, text=True
            )
        with process:
            process.stdin.write(commands)
            process.stdin.close()
            assert said.readline().startswith("grainlike: [1] scheduled")
            said.close()
            assert process.wait(LIMIT_S) == 141


@pytest.mark.parametrize(
    ("command", "code", "words"), [("echo hi", 0, "[1] completed"), ("echo hi; exit 3", 1, ": exit code 3\n")]
)
@pytest.mark.parametrize("as_json", [False, True])
def test_a_full_disk_where_it_prints_fails_no_command(command, code, words, as_json):
    arguments = ["--run-once", "-r", "cores=1", *(["--json"] if as_json else []), "--", "sh", "-c", command]
    with Path("/dev/full").open("w") as out:
        done = subprocess.run(
            [*COMMAND, *arguments],
            env={**os.environ, **ENVIRONMENT},
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    assert done.returncode == code
    lost = "grainlike: what is printed is lost from here on, and commands go on: [Errno 28] No space left on device\n"
    assert done.stderr.count(lost) == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_disk_of_what_it_says_loses_nothing_else():
    with Path("/dev/full").open("w") as told:
        done = subprocess.run(
            [*COMMAND, "--run-once", "-r", "cores=1", "--", "sh", "-c", "echo hi; echo lost >&2"],
            env={**os.environ, **ENVIRONMENT},
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, "hi\n")


def test_letters_that_its_output_cannot_have_are_escapes():
    done = submit("--run-once", "-r", "cores=1", "--", "echo", "caf\xe9", env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stdout) == (0, "caf\\xe9\n")


@pytest.mark.asyncio
async def test_k9_on_a_heads_workers(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    arguments = ("-r", "cores=1", "--", "sh", "-c", "echo out; echo err >&2")
    async with Executor(local=None, listen="tcp://127.0.0.1:0") as executor:
        worker = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-m", "grainlike", "worker", "start", "--resources", "cores=1", "--name", "n1"],
            env={**os.environ, **ENVIRONMENT},
            stderr=subprocess.DEVNULL,
        )
        with worker:
            async with asyncio.timeout(LIMIT_S):
                await executor.wait_for_workers(1)
                done = await asyncio.to_thread(submit, *arguments)
            worker.terminate()
    assert (done.returncode, done.stdout) == (0, "out\n")
    assert "err" in done.stderr.splitlines()
    assert "grainlike: [1] started on n1, slots cores=[0]" in done.stderr
    gone = submit(*arguments)
    assert gone.returncode == 3
    assert "no head is running here" in gone.stderr
