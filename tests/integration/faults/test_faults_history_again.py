"""History of ended jobs outlives a head with a journal: killed, stopped, and started again."""

import asyncio
import json
import signal

import pytest
from fault_calls import halved
from heads import head_process, listens
from limits import LIMIT_S

from grainlike import Cores, connect, gather
from grainlike.cli import main

pytestmark = pytest.mark.asyncio


async def told(capsys, *words):
    """Output of the command line for programs."""
    capsys.readouterr()
    assert await asyncio.to_thread(main, [*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


async def test_ended_jobs_are_told_by_the_head_after_one_that_was_killed_or_stopped(start_worker, tmp_path, capsys):
    journal, heads = tmp_path / "journal", [head_process(tmp_path / "journal")]
    try:
        async with asyncio.timeout(LIMIT_S):
            worker = start_worker(await listens(heads[-1]), resources="cores=2")
            async with connect(on_failure="continue") as client:
                await client.wait_for_workers(1)
                await gather([(halved @ Cores(1))(n) for n in range(6)], return_exceptions=True)
                before = await client.history()
                assert len(before) == 6
                heads[-1].send_signal(signal.SIGKILL)
                heads[-1].communicate()
                heads.append(head_process(journal))
                await listens(heads[-1])
                assert await (halved @ Cores(1))(10) == 5
                last, *rest = await client.history()
            assert (last.job, last.outcome) == (7, "succeeded")
            assert rest == before
            assert (await told(capsys, "explain", 4))["error"] == "ValueError: odd"

            heads[-1].send_signal(signal.SIGINT)  # it ends all work, and draws an image of a head without any
            assert await asyncio.to_thread(heads[-1].wait) == 0
            assert (await worker.exit())[0] == 0
            assert await asyncio.to_thread(main, ["journal", "check", str(journal)]) == 0
            heads.append(head_process(journal))
            await listens(heads[-1])
            found = (await told(capsys, "jobs", "--ended"))["ended"]
            assert [job["job"] for job in found] == [7, *(job.job for job in before)]
            assert (await told(capsys, "jobs", "--failed"))["ended"][0]["job"] == 4
            [row] = (await told(capsys, "report"))["functions"]
            assert (row["asked"], row["outcomes"]) == ("cores=1", {"succeeded": 6, "failed": 1})
    finally:
        for head in heads:
            head.kill()
            head.communicate()
