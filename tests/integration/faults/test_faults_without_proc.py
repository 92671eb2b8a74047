"""Workers without /proc, as in some chroots: none starts, and each says what is missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from limits import LIMIT_S
from mounts import may_mount, with_mount

ROOT = Path(__file__).parents[3]
EMBEDDED = """
from grainlike import Cores, Executor, WorkerLostError, delayed, run


@delayed
def plain():
    return 1


@delayed
async def coroutine():
    return 2


async def main():
    async with Executor(local=Cores([0])):
        print(await (coroutine @ Cores(1))())
        try:
            await (plain @ Cores(1))()
        except WorkerLostError as error:
            print(error)


run(main, local=None)
"""

pytestmark = pytest.mark.skipif(not may_mount(), reason="takes a mount of one's own")


def without_proc(tmp_path, *arguments):
    """Run Python where an empty file system hides /proc."""
    return subprocess.run(
        with_mount("-t tmpfs none /proc", sys.executable, *arguments),
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}", "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_a_worker_is_refused_with_one_line(tmp_path):
    done = without_proc(tmp_path, "-m", "grainlike", "worker", "start", "--resources", "cores=1")
    assert done.returncode == 2
    (said,) = done.stderr.splitlines()
    assert said.startswith("grainlike worker: /proc is not mounted here, and")
    assert "as root: mount -t proc proc /proc" in said


def test_doctor_says_so(tmp_path):
    done = without_proc(tmp_path, "-m", "grainlike", "doctor")
    assert done.returncode == 1
    assert "bad  processes: /proc is not mounted here" in done.stdout
    assert "\n     as root: mount -t proc proc /proc" in done.stdout
    assert "Traceback" not in done.stderr


def test_an_embedded_worker_runs_coroutines_and_says_why_no_others(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(EMBEDDED)
    done = without_proc(tmp_path, str(script))
    assert done.returncode == 0, done.stderr
    value, why = done.stdout.splitlines()[:2]
    assert value == "2"
    assert "/proc is not mounted here" in why
    assert "Traceback" not in done.stderr
