"""Answers to submissions: taken, refused for now or for good, or not clear, and how words come through."""

import json
from typing import Any

import pytest
from dialects_here import ALL, BATCH, recorded, request

from grainlike.dialects import CommandResult, NativeCommand, is_native_name, native_environment, native_name

CASES = [(kind, case) for kind, cases in json.loads(recorded("submissions.json")).items() for case in cases]


@pytest.mark.parametrize(("kind", "case"), CASES, ids=[f"{kind}-{n}" for n, (kind, _) in enumerate(CASES)])
def test_an_answer_means(kind: str, case: dict[str, Any]) -> None:
    answer = ALL[kind].submitted(CommandResult(case["code"], case.get("stdout", ""), case.get("stderr", "")))
    assert (answer.verdict, answer.native) == (case["verdict"], case.get("native", ""))
    assert answer.words
    for line in case.get("stderr", "").splitlines():
        assert line in answer.words


def test_a_check_of_slurm_and_grid_engine_submits_nothing() -> None:
    slurm, sge = ALL["slurm"], ALL["sge"]
    assert slurm.check(request()).argv == ("sbatch", "--test-only")
    words = "sbatch: Job 7 to start at 2026-11-23T14:20:00 using 16 processors on nodes n1 in partition main\n"
    assert slurm.checked(CommandResult(0, "", words)).verdict == "accepted"
    refused = slurm.checked(CommandResult(1, "", "allocation failure: Invalid partition name specified\n"))
    assert (refused.verdict, refused.native) == ("refused", "")
    assert sge.check(request()).argv == ("qsub", "-w", "v")
    assert sge.checked(CommandResult(0, "verification: found suitable queue(s)\n")).verdict == "accepted"
    none = "Unable to run job: error: no suitable queues.\nExiting.\n"
    assert sge.checked(CommandResult(0, "", none)).verdict == "refused"


@pytest.mark.parametrize("kind", ["pbs", "lsf"])
def test_a_check_elsewhere_is_a_held_job_that_is_ended(kind: str) -> None:
    dialect = ALL[kind]
    assert set(dialect.check(request()).argv) & {"-h", "-H"}
    stdout = {"pbs": "9.pbs1\n", "lsf": "Job <9> is submitted to queue <normal>.\n"}[kind]
    native = dialect.checked(CommandResult(0, stdout)).native
    assert native in dialect.end([native]).argv


def test_commands() -> None:
    assert BATCH["slurm"].list("ann")[0].argv == (
        *("squeue", "-h", "-t", "all", "-u", "ann", "-o"),
        "%i|%j|%T|%L|%r|%N|%S",
    )
    assert [command.argv[:1] + command.argv[-1:] for command in BATCH["pbs"].list("ann")] == [
        ("qstat", "-x"),
        ("qstat", "-f"),
    ]
    *shell, user = BATCH["sge"].list("ann")[0].argv
    assert (shell[:2], shell[2].split(";")[-1], user) == (["sh", "-c"], ' exec qstat -xml -r -u "$1"', "ann")
    assert {kind: dialect.end(["7"]).argv for kind, dialect in BATCH.items()} == {
        "slurm": ("scancel", "7"),
        "pbs": ("qdel", "7"),
        "torque": ("qdel", "7"),
        "lsf": ("bkill", "7"),
        "sge": ("qdel", "7"),
    }


def test_a_command_goes_by_way_of_another() -> None:
    command = NativeCommand(("squeue", "-o", "%i|%j"), "text")
    assert command.via("ssh -p 22 login1") == NativeCommand(
        ("ssh", "-p", "22", "login1", "squeue", "-o", "'%i|%j'"), "text"
    )
    assert command.via("sudo -u ann").argv == ("sudo", "-u", "ann", "squeue", "-o", "%i|%j")
    assert command.via("/usr/bin/ssh login1").argv[-1] == "'%i|%j'"


def test_native_commands_see_little_of_the_heads_environment() -> None:
    head = {
        "PATH": "/bin",
        "HOME": "/home/ann",
        "LC_ALL": "C",
        "SLURM_CONF": "/etc/slurm.conf",
        "SLURM_MEM_PER_CPU": "500",
        "SBATCH_ACCOUNT": "other",
        "AWS_SECRET_ACCESS_KEY": "x",
        "SGE_ROOT": "/sge",
        "PBS_CONF_FILE": "/etc/pbs.conf",
        "PBS_JOBID": "7",
        "LSF_ENVDIR": "/lsf",
        "KUBECONFIG": "/k",
        "SSH_AUTH_SOCK": "/s",
    }
    seen = {
        kind: set(native_environment(head, dialect.finders)) - {"PATH", "HOME", "LC_ALL"}
        for kind, dialect in ALL.items()
    }
    assert seen == {
        "slurm": {"SLURM_CONF"},
        "pbs": {"PBS_CONF_FILE"},
        "torque": {"PBS_CONF_FILE"},
        "lsf": {"LSF_ENVDIR"},
        "sge": {"SGE_ROOT"},
        "ssh": {"SSH_AUTH_SOCK"},
        "local": set(),
        "k8s": {"KUBECONFIG"},
    }
    assert native_environment(head, (), [("PATH", "/mine"), ("A", "1")])["PATH"] == "/mine"


def test_native_names_are_found_again_and_short() -> None:
    name = native_name("1A2B3C4D5E", 9999)
    assert name == "gl1a2b3c4d-9999"
    assert len(name) == 15
    assert is_native_name(name)
    assert not any(
        map(is_native_name, ["gl1a2b3c4d", "gl1a2b3c4d-", "xgl1a2b3c4d-1", "gl1a2b3c4d-1\n", "glxxxxxxxx-1"])
    )
    with pytest.raises(ValueError, match="no name"):
        native_name("short", 1)
