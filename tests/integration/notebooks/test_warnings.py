"""Warnings about jobs in a notebook are shown below the cell that wants them, and name the executor that they mean."""

from __future__ import annotations

from pathlib import Path

from notebooks import running_kernel

SET_UP = """
import asyncio, logging, sys
from grainlike import Cores, Executor, cancel, connect, delayed, start

class Told(logging.StreamHandler):
    def __init__(self):
        super().__init__(sys.stderr)
        self.records = asyncio.Queue()

    def emit(self, record):
        super().emit(record)
        self.records.put_nowait(record)

told = Told()
logging.getLogger("grainlike").addHandler(told)

@delayed
def f(x):
    return x
"""

WAITS = """
while not told.records.empty():
    told.records.get_nowait()
r_ = start((f @ Cores(99))(1))
for _ in range({}):
    await told.records.get()
cancel(r_)
"""


def test_a_job_that_no_worker_can_run_is_told_of_below_the_cell_that_wants_it(tmp_path: Path) -> None:
    with running_kernel(tmp_path) as kernel:
        kernel.run(SET_UP)
        opened = [kernel.run("ex = await Executor(listen='tcp://127.0.0.1:0', local=Cores(1))")]
        own = kernel.run(WAITS.format(1))
        assert "1 job waits for a worker that can give cores=99" in own.written("stderr")
        opened += [kernel.run("far = await connect(ex.address)"), kernel.run("far = await connect(ex.address)")]
        far = kernel.run(WAITS.format(2))  # this process is the head, too, and warns as such
        assert own.written("stderr").strip() in far.written("stderr")
        assert not [cell for cell in opened[1:] if "waits for a worker" in cell.written("stderr")]
        again = opened[-1].written("stderr")
        assert "-2> from now on" in again
        assert f":{kernel.pid}> is open in this loop, too" in again
