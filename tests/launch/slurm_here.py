"""A real Slurm on this machine: munged, slurmctld and a slurmd for each node, from Debian's packages, as root.

All that it writes is in one folder, and it ends with the block. Its ports are drawn anew each time, so several may run
side by side.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from limits import LIMIT_S
from ports import free_ports

__all__ = ["PROGRAMS", "SlurmHere", "missing", "temporary_slurm"]

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo")
END_S = 10.0


def missing() -> list[str]:
    """Return which programs of Slurm are not installed."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


@contextmanager
def temporary_slurm(kind: Callable[..., SlurmHere] | None = None, **options: Any) -> Iterator[Any]:
    """Start a Slurm, a `SlurmHere` unless said otherwise, with options in a folder of its own, which is removed at the
    end.
    """
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # munged's user must get there, so it is not pytest's
    folder.chmod(0o755)
    try:
        with (kind or SlurmHere)(folder, **options) as started:
            yield started
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class SlurmHere:
    """Slurm with nodes `n1`, `n2` ... in `folder`, from `with SlurmHere(folder) as slurm` on; `n1` has a GPU, as far as
    Slurm can tell: a character device.

    Args:
        processors: what jobs may use, on each of the nodes; as many as `cpus`, so that jobs of a whole node know which
            cores are theirs, as on a node of their own. Without any: all of this machine.

    Attributes:
        environment: variables with which Slurm's commands find it.
    """

    def __init__(
        self,
        folder: Path,
        nodes: int = 4,
        cpus: int = 4,
        memory_mb: int = 4000,
        extra: str = "",
        processors: Sequence[int] = (),
    ) -> None:
        self.folder = folder
        self.nodes = [f"n{number + 1}" for number in range(nodes)]
        self._cpus, self._memory_mb, self._extra = cpus, memory_mb, extra
        self._held = ("taskset", "-c", ",".join(map(str, processors))) if processors else ()
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self._ended = ExitStack()

    def __enter__(self) -> Self:
        self.folder.mkdir(mode=0o755, exist_ok=True)
        with ExitStack() as stack:
            self._start_network(stack)
            self._start_munge(stack)
            self._configure()
            self._start_accounting(stack)
            self._start(stack, *self.before(""), "slurmctld", "-D", "-f", self.folder / "slurm.conf", log="slurmctld")
            for node in self.nodes:
                words = ("slurmd", "-D", "-N", node, "-f", self.folder / "slurm.conf")
                self._start(stack, *self.before(node), *self._held, *words, log=f"slurmd-{node}")
            self._until(self._all_idle, "the nodes are not idle")
            self._ended = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.say("scancel", "--full", "--user=root")
        with contextlib.suppress(TimeoutError):
            self._until(lambda: not self.say("squeue", "-h"), "jobs are left")
        self._ended.close()

    # --- where it runs -----------------------------------------------------------------------------------------------

    here: tuple[str, ...] = ()

    @property
    def control(self) -> str:
        """Address of the controller."""
        return "127.0.0.1"

    def address_of(self, node: str) -> str:
        """Return the address of a node."""
        return "127.0.0.1"

    def host_of(self, node: str) -> str:
        """Return the host name that a node sees as its own."""
        return socket.gethostname()

    def before(self, node: str) -> tuple[str, ...]:
        """Return the words before the command of a node's daemon; of the controller's for no node."""
        return ()

    def _start_network(self, stack: ExitStack) -> None:
        """Make the network of the nodes, to end with `stack`."""

    def _start_accounting(self, stack: ExitStack) -> None:
        """Start what keeps accounts, to end with `stack`."""

    # --- what tests ask and do ---------------------------------------------------------------------------------------

    def say(self, *words: object, check: bool = True) -> str:
        """Run one of its commands; return what it prints."""
        command = [*self.here, *(str(word) for word in words)]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0 or not check, f"{command} ended with {done.returncode}: {done.stderr}"
        return done.stdout.strip()

    def jobs(self) -> list[tuple[str, str]]:
        """Return id and state of all jobs in the queue."""
        lines = self.say("squeue", "-h", "-t", "all", "-o", "%i|%T").splitlines()
        return [(number, state) for number, _, state in (line.partition("|") for line in lines)]

    def end_of(self, number: str) -> str:
        """Return the state of a job once it has ended, and its exit code, as `COMPLETED 0:0`."""
        found: list[str] = []

        def ended() -> bool:
            shown = dict(
                word.split("=", 1) for word in self.say("scontrol", "-o", "show", "job", number).split() if "=" in word
            )
            found[:] = [shown["JobState"], shown["ExitCode"]]
            return found[0] not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING")

        self._until(ended, f"job {number} does not end")
        return " ".join(found)

    # --- its programs ------------------------------------------------------------------------------------------------

    def _start_munge(self, stack: ExitStack) -> None:
        user = pwd.getpwnam("munge")
        folder = self.folder / "munge"
        folder.mkdir(mode=0o755)
        (folder / "key").write_bytes(secrets.token_bytes(1024))
        (folder / "key").chmod(0o600)
        for path in (folder, folder / "key"):
            os.chown(path, user.pw_uid, user.pw_gid)
        files = (f"--socket={folder}/socket", f"--key-file={folder}/key", f"--log-file={folder}/log")
        rest = (f"--pid-file={folder}/pid", f"--seed-file={folder}/seed")
        self._start(stack, "munged", "--foreground", *files, *rest, log="munged", user=user)
        self._until((folder / "socket").exists, "munged does not listen")

    def _start(
        self, stack: ExitStack, *words: object, log: str, user: pwd.struct_passwd | None = None
    ) -> subprocess.Popen[bytes]:
        path = self.folder / f"{log}.out"
        command = [str(word) for word in words]
        as_user = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        with path.open("wb") as out:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.environment, **as_user
            )
        stack.callback(_end, process)
        return process

    def _configure(self) -> None:
        folder, host = self.folder, socket.gethostname()
        gpu = self.nodes[0]
        (folder / "gres.conf").write_text(f"NodeName={gpu} Name=gpu File=/dev/null\n")
        ports = list(free_ports(len(self.nodes) + 1))
        nodes = "\n".join(
            f"NodeName={node} NodeHostname={self.host_of(node)} NodeAddr={self.address_of(node)} Port={port} "
            f"CPUs={self._cpus} RealMemory={self._memory_mb}{' Gres=gpu:1' if node == gpu else ''} State=UNKNOWN"
            for node, port in zip(self.nodes, ports[1:], strict=True)
        )
        (folder / "state").mkdir()
        (folder / "slurm.conf").write_text(
            f"""\
ClusterName=here
SlurmctldHost={host}({self.control})
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
ReturnToService=2
EnforcePartLimits=ALL
MinJobAge=3600
KillWait=60
BatchStartTimeout=60
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
{nodes}
PartitionName=work Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=minute Nodes=ALL MaxTime=00:01:00 State=UP
{self._extra}
"""
        )

    def _all_idle(self) -> bool:
        states = self.say("sinfo", "-h", "-N", "-p", "work", "-o", "%N %t", check=False).splitlines()
        return len(states) == len(self.nodes) and all(line.endswith(" idle") for line in states)

    def _until(self, condition: Callable[[], object], why_not: str) -> None:
        end = time.monotonic() + LIMIT_S
        while not condition():
            if time.monotonic() > end:
                logs = [f"{path.name}: {path.read_text()[-1500:]}" for path in sorted(self.folder.glob("*.out"))]
                raise TimeoutError("\n".join([why_not, *logs]))
            time.sleep(0.05)  # no program of Slurm's tells of such things


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
