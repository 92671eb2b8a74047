"""What is told of a run-list whose process was killed for its memory."""

import sys

import pytest

from grainlike import JobMemoryError
from grainlike.payload import Payload, load_error
from grainlike.wire import Code, Completed, Define, FunctionSpec, Run, Setup, unpack_parcels
from grainlike_worker.daemon._output import Outputs
from grainlike_worker.daemon._runner_supervisor import RunnerSupervisor
from grainlike_worker.ipc._claims import ClaimPage

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of memory")


async def never() -> None:
    raise AssertionError("no process is started here")


def killed(started: int, lease: int = 1) -> tuple[Completed, BaseException | None]:
    tap = Outputs(lambda message: None).tap(1)
    runner = RunnerSupervisor(never, lambda pid: None, tap, own=True)  # type: ignore[arg-type]
    runner.post(Setup("n1", []))
    runner.post(Define([FunctionSpec(4, b"", "grow", False, None)], []), [b""])
    runner.post(Run(1, "cores=[0]", [10, 11, 12], [1, 1, 1], [4, 4, 4], [None] * 3, [b""] * 3, [0] * 3))
    claims = ClaimPage.create()
    claims.lease, claims.started = lease, started
    claims.base, claims.limit, claims.taken = 100, 1_000_100, 5_000_100
    try:
        ((message, buffers),) = runner._out_of_memory(claims)
    finally:
        claims.close()
    assert isinstance(message, Completed)
    parcels = unpack_parcels(message.data, message.counts, buffers)
    errors = [load_error(Payload(data, tuple(more)), None) for data, more in parcels if data]
    return message, errors[0] if errors else None


def test_the_running_job_took_too_much_and_those_behind_it_come_back() -> None:
    message, error = killed(started=1)
    assert message.codes == [Code.CRASHED, Code.OUT_OF_MEMORY, Code.RETURNED]
    assert isinstance(error, JobMemoryError)
    assert (error.asked, error.peak) == (1_000_000, 5_000_000)
    assert "grow took 5M of memory on worker n1, and had asked for 1M" in str(error)
    assert message.wall[0] == message.wall[2] == 0.0
    assert message.wall[1] > 0
    assert message.begun[1] + message.wall[1] <= message.sent_at


@pytest.mark.parametrize(("started", "lease"), [(-1, 1), (2, 0)], ids=["idle", "at the lease before"])
def test_one_that_died_before_it_began_anything_is_its_first_jobs_doing(started: int, lease: int) -> None:
    message, _ = killed(started, lease)
    assert message.codes == [Code.OUT_OF_MEMORY, Code.RETURNED, Code.RETURNED]
