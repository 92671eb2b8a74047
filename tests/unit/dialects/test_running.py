"""Scripts of blocks in a real shell: what the worker is told, what runs after it, and what signals do.

Programs of batch systems are stood in for by shell scripts that start what they are told to, as often as they should.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from dialects_here import ALL, BATCH, request
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from limits import LIMIT_S
from waiting import until_blocking, until_files_blocking

from grainlike.dialects import BlockFile, BlockRequest, CommandResult, LocalDialect, NativeCommand

SURE = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=15")

WORKER = f"""#!{sys.executable} -S
import json, os, signal, sys
from pathlib import Path

def line(text):
    with open(os.environ["TOLD"], "a") as file:
        file.write(text + "\\n")

names = ("GRAINLIKE_BLOCK", "A", "TMPDIR")
mode = oct(os.stat(os.environ["TMPDIR"]).st_mode)[-3:] if "TMPDIR" in os.environ else ""
line(json.dumps([sys.argv[1:], {{name: os.environ.get(name, "") for name in names}}, mode]))
if "WAIT" in os.environ:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    Path(os.environ["WAIT"]).touch()
    signal.sigwait([signal.SIGTERM])
    line("worker ends")
sys.exit(int(os.environ.get("CODE", "0")))
"""

SPREADS = {
    "srun": 'while [ "$1" != bash ]; do shift; done; for r in 0 1; do SLURM_PROCID=$r "$@"; done',
    "mpirun": 'while [ "$1" != bash ]; do shift; done; for r in 0 1; do OMPI_COMM_WORLD_RANK=$r "$@"; done',
    "pbsdsh": '[ "$(ps -o sid= $$)" -eq $$ ] || exit 1; shift; for r in 0 1; do '
    'env -i PATH="$PATH" TOLD="$TOLD" PBS_NODENUM=$r "$@"; done',
    "blaunch": '[ "$2" = -no-shell ] && shift 2 && exec "$@"',
    "qrsh": 'shift 3; exec env -i PATH="$PATH" TOLD="$TOLD" bash -c "$*"',
    "ssh": 'shift 2; exec env -i PATH="$PATH" TOLD="$TOLD" bash -c "$*"',
    "scontrol": "printf 'n1\\nn2\\n'",
}


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with the programs, and the lists of nodes that batch systems give to jobs."""
    (tmp_path / "bin").mkdir()
    program(tmp_path / "worker py", WORKER)
    for name, text in SPREADS.items():
        program(tmp_path / "bin" / name, f"#!/bin/bash\n{text}\n")
    (tmp_path / "hosts").write_text("n1 16 x\nn2 16 x\n")
    (tmp_path / "its block").mkdir()
    return tmp_path


def environment(place: Path, **more: str) -> dict[str, str]:
    hosts = dict.fromkeys(("PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE"), str(place / "hosts"))
    path = f"{place / 'bin'}:{os.environ['PATH']}"
    # A login shell may set the path anew.
    return {"PATH": path, "HOME": str(place), "USER": "ann", "TOLD": str(place / "told"), **hosts, **more}


def block_at(place: Path, **changes: object) -> BlockRequest:
    usual = {
        "directory": str(place / "its block"),
        "python": str(place / "worker py"),
        "access": str(place / "it's 5%"),
    }
    return request(**{**usual, **changes})


def run(place: Path, text: str, **more: str) -> subprocess.CompletedProcess[str]:
    script = place / "its block" / "script"
    script.write_text(text)
    profile = place / ".bash_profile"
    profile.write_text(f'PATH="{place / "bin"}:$PATH"\n')
    return subprocess.run(
        ["bash", "-l", str(script)],
        env=environment(place, **more),
        cwd=place,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def told(place: Path) -> list[str]:
    return (place / "told").read_text().splitlines()


@pytest.mark.parametrize("kind", BATCH)
def test_one_node(kind: str, place: Path) -> None:
    block = block_at(
        place,
        env=(("A", "it's a | b\n50%"),),
        setup=("defer echo first >>$TOLD", "export B=1", 'defer echo "last $B" >>$TOLD'),
        scratch=str(place / "$USER"),
        offer="cores=16 token=it's",
    )
    done = run(place, BATCH[kind].script(block), CODE="7")
    assert done.returncode == 7, done.stderr
    first, *others = told(place)
    argv, variables, mode = json.loads(first)
    access = str(place / "it's 5%")
    assert argv == ["-m", "grainlike_worker", "--head", access, "--resources", block.offer, "--name", "cpu-7.0"]
    assert (variables["GRAINLIKE_BLOCK"], variables["A"], mode) == ("cpu-7", "it's a | b\n50%", "700")
    assert variables["TMPDIR"].startswith(f"{place}/ann/cpu-7.")
    assert others == ["last 1", "first"]
    assert list((place / "ann").iterdir()) == []


MANY = [(kind, spread) for kind, dialect in BATCH.items() for spread in dialect.spreads]


@pytest.mark.parametrize(("kind", "spread"), MANY, ids=[f"{kind}-{spread}" for kind, spread in MANY])
def test_two_nodes(kind: str, spread: str, place: Path) -> None:
    block = block_at(place, nodes=2, spread=spread, env=(("A", "it's"),), scratch=str(place / "tmp of nodes"))
    done = run(place, BATCH[kind].script(block))
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in told(place)]
    assert sorted(argv[-1] for argv, _, _ in found) == ["cpu-7.0", "cpu-7.1"]
    assert {variables["A"] for _, variables, _ in found} == {"it's"}
    assert len({variables["TMPDIR"] for _, variables, _ in found}) == 2
    assert {mode for _, _, mode in found} == {"700"}
    assert list((place / "tmp of nodes").iterdir()) == []


@pytest.mark.parametrize("kind", BATCH)
def test_a_signal_to_every_process_waits_for_the_worker(kind: str, place: Path) -> None:
    block = block_at(place, setup=("defer echo deferred >>$TOLD",))
    script = place / "its block" / "script"
    script.write_text(BATCH[kind].script(block))
    with subprocess.Popen(
        ["bash", "-l", str(script)],
        env=environment(place, WAIT=str(place / "there")),
        cwd=place,
        start_new_session=True,
    ) as shell:
        until_files_blocking(place, (place / "there").exists)
        os.killpg(shell.pid, signal.SIGTERM)
        shell.wait(LIMIT_S)
    assert told(place)[1:] == ["worker ends", "deferred"]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20))
def test_variables_are_read_back(place: Path, value: str) -> None:
    (place / "told").unlink(missing_ok=True)
    run(place, BATCH["slurm"].script(block_at(place, env=(("A", value),))), LC_ALL="C.UTF-8")
    assert json.loads(told(place)[0])[1]["A"] == value


# --- blocks without a batch system, by their own shell ----------------------------------------------------------------


class Machine:
    """This machine, as the head sees it: each command that the dialect gives is run."""

    def __init__(self, place: Path, dialect: LocalDialect, **more: str) -> None:
        self.place, self.dialect, self.more = place, dialect, more

    def does(self, command: NativeCommand) -> CommandResult:
        done = subprocess.run(
            command.argv,
            input=command.stdin,
            env=environment(self.place, **self.more),
            cwd=self.place,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def states(self) -> dict[str, str]:
        listing = self.dialect.listed(self.does(self.dialect.list_in(str(self.place / "blocks"))))
        assert listing.failed == ""
        return {block.name: f"{block.state} {block.reason}".strip() for block in listing.blocks}

    def left_s(self) -> float | None:
        (block,) = self.dialect.listed(self.does(self.dialect.list_in(str(self.place / "blocks")))).blocks
        return block.left_s


def on_machine(place: Path) -> BlockRequest:
    folder = str(place / "blocks" / "gl1a2b3c4d-7")
    return block_at(place, directory=folder, deliver=(BlockFile(f"{folder}/worker.json", "secret"),))


def test_a_block_on_a_machine_starts_once_is_listed_and_ends(place: Path) -> None:
    dialect = LocalDialect()
    machine = Machine(place, dialect, WAIT=str(place / "there"), CODE="3")
    block = on_machine(place)
    folder = Path(block.directory)
    answer = dialect.submitted(machine.does(dialect.submit(block)))
    assert answer.verdict == "accepted"
    assert dialect.submitted(machine.does(dialect.submit(block))) == answer
    until_files_blocking(place, (place / "there").exists)
    assert len(told(place)) == 1
    assert machine.states() == {"gl1a2b3c4d-7": "running"}
    left = machine.left_s()
    assert left is not None
    assert 14000 < left <= 14400
    assert (oct(folder.stat().st_mode)[-3:], {oct(file.stat().st_mode)[-3:] for file in folder.iterdir()}) == (
        "700",
        {"600"},
    )
    other = answer.native.replace(":", ":9")
    assert machine.does(dialect.end([other])).code == 0
    assert machine.states() == {"gl1a2b3c4d-7": "running"}
    assert machine.does(dialect.end([answer.native])).code == 0
    until_blocking(lambda: machine.states() == {"gl1a2b3c4d-7": "ended exit code 3"})
    assert not (folder / "worker.json").exists()
    assert told(place)[1:] == ["worker ends"]
    assert machine.does(dialect.forget_on("", [block.directory])).code == 0
    assert not folder.exists()


def test_a_block_on_a_machine_that_ends_well_leaves_no_file(place: Path) -> None:
    machine = Machine(place, LocalDialect())
    block = on_machine(place)
    machine.does(machine.dialect.submit(block))
    until_blocking(lambda: not Path(block.directory).exists())
    assert machine.states() == {}


def test_a_block_whose_interpreter_is_not_there_says_so(place: Path) -> None:
    machine = Machine(place, LocalDialect())
    block = replace(on_machine(place), python="/nonexistent/python")
    machine.does(machine.dialect.submit(block))
    until_blocking(lambda: machine.states() == {"gl1a2b3c4d-7": "ended exit code 127"})
    assert "/nonexistent/python" in (Path(block.directory) / "log").read_text()


def test_a_block_is_killed_with_all_in_its_session(place: Path) -> None:
    dialect = LocalDialect()
    machine = Machine(place, dialect, WAIT=str(place / "there"))
    answer = dialect.submitted(machine.does(dialect.submit(on_machine(place))))
    until_files_blocking(place, (place / "there").exists)
    machine.does(dialect.end_on("", [answer.native], now=True))
    until_blocking(lambda: machine.states() == {"gl1a2b3c4d-7": "ended it was killed"})


def test_ssh_says_the_same_to_a_shell_there() -> None:
    ssh = ALL["ssh"]
    command = ssh.submit(request(native=("-p", "2222"), directory=".local/state/b"))
    assert command.argv == ("ssh", "-p", "2222", *SURE, "-T", "--", "n1", "bash", "-s")
    assert ssh.check(request()).argv == ("ssh", *SURE, "-T", "--", "n1", "true")
    assert "StrictHostKeyChecking" not in str(command)
