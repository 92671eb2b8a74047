"""With cgroups, everything of a runner is ended at once, whatever it does; and no cgroup is left behind."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from limits import LIMIT_S
from waiting import until

from grainlike import GVAR, Cores, Executor, WorkerLostError, delayed, info
from grainlike.system._cgroup import Cgroup, own_cgroups
from grainlike_worker.linux import _worker_cgroups
from grainlike_worker.linux._worker_cgroups import claimed_cgroups


def usable() -> Cgroup | None:
    """Where workers that are started here make their cgroups."""
    with claimed_cgroups(move=False) as cgroups:
        return None if cgroups is None else Cgroup(cgroups.path).above().above()


OWN = usable()
ROOT = Path(__file__).parents[3]

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(OWN is None, reason="no cgroup v2 is delegated to this process"),
]


def of_worker(pid: int) -> list[str]:
    """The cgroups of the worker in that process; others may run beside this test."""
    assert OWN is not None
    return [group.path for group in OWN.below() if f".{pid}." in group.path]


@pytest.fixture
def alone():
    """A cgroup where no other worker looks."""
    assert OWN is not None
    group = OWN / f"test-{os.getpid()}"
    group.make()
    yield group
    assert group.remove()


@delayed
def where():
    """The cgroup of this job, of a child in a session of its own, and all processes of it."""
    import subprocess

    look = [sys.executable, "-S", "-c", "print(next(line for line in open('/proc/self/cgroup') if line[0] == '0'))"]
    child = subprocess.run(look, check=True, capture_output=True, text=True, start_new_session=True).stdout
    own = next(own_cgroups())
    return own.path, f"0::{child.strip()[3:]}", own.processes(), os.getpid()


async def test_each_runner_has_a_cgroup_and_so_have_its_children_and_all_go_with_the_worker():
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)) as executor:
        told_ = (where @ Cores(1))()
        path, child, processes, runner = await told_
        assert Path(path).name == f"runner-{runner}"
        assert path.endswith(child.removeprefix("0::"))
        assert processes == [runner]
        assert len(of_worker(os.getpid())) == 1
        assert executor.workers()[0].memory_tier in ("cgroup", "watchdog")
        os.kill(runner, signal.SIGKILL)
        again, _, _, other = await (where @ Cores(1))()
        assert (Path(again).parent, other != runner) == (Path(path).parent, True)
        await until(lambda: not Path(path).exists())  # the kernel's records, which tell nobody
    assert of_worker(os.getpid()) == []


async def test_a_killed_keeper_leaves_no_daemon_while_the_worker_lives(tmp_path, still_running):
    def job():
        import time

        daemon = tmp_path / f"daemon-{GVAR.job.attempt}"  # a job that is lost with its runner runs again
        told, tell = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                daemon.write_text(str(os.getpid()))
                os.write(tell, b".")
                time.sleep(3600)
            os._exit(0)
        os.read(told, 1)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(3600)

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        with pytest.raises(WorkerLostError):
            await (delayed(job, retries=0) @ Cores(1))()
        daemons = [int(daemon.read_text()) for daemon in tmp_path.glob("daemon-*")]
        assert len(daemons) == 3
        assert await still_running(daemons) == []


async def test_what_a_worker_and_keeper_that_were_killed_left_is_removed_when_nobody_lives_there(
    alone, start_worker, still_running
):
    first = f"with open('{alone.path}/cgroup.procs', 'w') as procs: procs.write('0')"
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        worker = start_worker(executor.address, first=first)
        told_ = (where @ Cores(1))()
        _, _, _, runner = await told_
        (mine,) = [group.path for group in alone.below()]
        keeper = psutil.Process(runner).ppid()
        for number in (keeper, worker.pid):
            os.kill(number, signal.SIGSTOP)  # so that neither sees the other's end
        for number in (keeper, worker.pid):
            os.kill(number, signal.SIGKILL)
        assert await still_running([runner, keeper, worker.pid]) == []
        assert Path(mine).exists()  # noqa: ASYNC240
        again = start_worker(executor.address, name="n2", first=first)
        assert info(told_).receipt.memory_tier == "none"
        await (where @ Cores(1))()
        assert mine not in [group.path for group in alone.below()]
    await again.exit()


async def test_a_cgroup_in_which_somebody_lives_is_left_alone(alone, monkeypatch):
    monkeypatch.setattr(_worker_cgroups, "own_cgroups", lambda: [alone])
    group = alone / f"grainlike.{_worker_cgroups._namespace()}.4999999.1.abcdef"
    group.make()
    with psutil.Popen([sys.executable, "-S", "-c", "import time; time.sleep(3600)"]) as living:
        group.add(living.pid)
        async with Executor(local=Cores(1)):
            assert group.processes() == [living.pid]
        living.kill()
    async with Executor(local=Cores(1)):
        assert group.path not in [found.path for found in alone.below()]


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root: a namespace of processes of its own")
async def test_the_empty_cgroup_of_a_worker_in_another_namespace_of_processes_is_left_alone(alone):
    claim = f"""
import sys
from grainlike_worker.linux._worker_cgroups import claimed_cgroups
with open("{alone.path}/cgroup.procs", "w") as procs:
    procs.write("0")
with claimed_cgroups(move=False):
    print(flush=True)
    sys.stdin.read()
"""
    apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    async with asyncio.timeout(LIMIT_S), ended_with_its_input(*apart, sys.executable, "-c", claim) as living:
        await living.stdout.readline()
        (group,) = [found.path for found in alone.below()]
        async with ended_with_its_input(sys.executable, "-c", claim) as other:
            await other.stdout.readline()
            assert group in [found.path for found in alone.below()]


@asynccontextmanager
async def ended_with_its_input(*command):
    """A process that runs until its standard input ends."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"}
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, env=environment)
    try:
        yield process
    finally:
        process.stdin.close()
        assert await process.wait() == 0
