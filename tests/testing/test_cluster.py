"""A cluster of the testing kit: nodes that the machine need not have, failures of nodes, and what is left behind."""

import os
import subprocess
import sys
from pathlib import Path

import anyio
import psutil
import pytest
from blocks import blocks_of
from cluster_calls import forever, mask, moments, place
from limits import LIMIT_S

from grainlike import GVAR, Cores, Executor, GPUs, Memory, UnsatisfiableError, cancel, delayed, gather, info, start
from grainlike.testing import Cluster
from grainlike.testing._nodes import with_own_cores

ROOT = Path(__file__).parents[2]


async def next_start(events):
    """Worker and attempt of the job that starts next."""
    async for event in events:
        if event.kind == "job_started":
            return event.worker, event.attempt
    return None


@pytest.mark.anyio
async def test_jobs_run_where_there_is_what_they_ask_for_and_in_a_partition_nothing_passes(tmp_path):
    mark = tmp_path / "mark"

    @delayed
    def leave_mark():
        mark.touch()
        return GVAR.instance

    with anyio.fail_after(LIMIT_S):
        async with Cluster([Cores(2) & Memory("1Gi"), Cores(2) & GPUs(2)]) as cluster:
            assert cluster.workers == ["n1", "n2"]
            assert await (place @ (Cores(1) & GPUs(2)))() == ("n2", (32770,), (0, 1))
            both = await gather([(place @ Cores(2))() for _ in range(2)])
            assert {cores for _, cores, _ in both} <= {(32768, 32769), (32770, 32771)}
            async with cluster.partition("n2"):
                r_ = start((leave_mark @ GPUs(1))())
                for _ in range(3):  # the way to the other worker and back is as long as that to the mark
                    assert (await (place @ (Cores(1) & Memory("1Mi")))())[0] == "n1"
                assert not mark.exists()
            assert await r_ == "n2"
            assert mark.exists()
            assert cluster.executor.workers()[1].shut == ""
            with pytest.raises(KeyError, match="no worker 'n3'"):
                async with cluster.partition("n3"):
                    pass
            await cluster.assert_all_finished()
            assert [worker.data for worker in cluster.executor.workers()] == ["", ""]  # there is no way past its link
            pids = [worker.pid for worker in cluster.executor.workers()]
        assert not any(map(psutil.pid_exists, pids))
        assert not cluster._directory.exists()


@pytest.mark.anyio
async def test_a_worker_that_is_silent_is_lost_when_told_and_ends_with_the_cluster_before_it_has_come_back():
    with anyio.fail_after(LIMIT_S):
        async with Cluster([Cores(1), Cores(1)], silence=2) as cluster:
            nodes = list(cluster._nodes.values())
            async with cluster.partition("n1"):
                assert {name for name, *_ in await gather([(place @ Cores(1))() for _ in range(3)])} == {"n2"}
                assert [worker.name for worker in cluster.executor.workers()] == ["n2"]
            assert cluster.workers == ["n1", "n2"]
        assert [node._process.returncode for node in nodes] == [0, 0]  # with another n1 would have waited for a head


@pytest.mark.anyio
async def test_a_worker_that_was_lost_in_a_partition_comes_back_under_its_name():
    with anyio.fail_after(LIMIT_S):
        async with Cluster([Cores(1)], silence=2) as cluster:
            events = cluster.executor.events()
            async with cluster.partition("n1"):
                async for event in events:
                    if event.kind == "worker_left":
                        break
            assert (await (place @ Cores(1))())[0] == "n1"


@pytest.mark.anyio
@pytest.mark.parametrize("stands", [False, True])
async def test_calls_inside_run_on_the_cluster_whatever_is_open_round_it(stands):
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=None) as outer:
            cluster = Cluster([Cores(1)])
            if stands:
                await cluster
                assert (await (place @ Cores(1))())[0] == "n1"
                await cluster.aclose()
            else:
                async with cluster:
                    assert (await (place @ Cores(1))())[0] == "n1"
            with pytest.raises(UnsatisfiableError):
                await (place @ Cores(1))()
            assert cluster.executor.report().succeeded == 1
            assert outer.report().succeeded == 0


@pytest.mark.anyio
@pytest.mark.parametrize("hidden", ["", "5"])
async def test_nodes_have_gpus_whatever_the_process_of_the_tests_is_shown(monkeypatch, hidden):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    with anyio.fail_after(LIMIT_S):
        async with Cluster([Cores(1) & GPUs(2)]):
            assert await (mask @ GPUs(2))() == "0,1"
            assert await (mask @ Cores(1))() == ""


@pytest.mark.anyio
async def test_each_of_two_tasks_has_the_cluster_of_its_block():
    names = {}

    async def task(offer):
        async with Cluster([offer]) as cluster:
            opened[offer].set()
            for event in opened.values():
                await event.wait()
            names[offer] = await (place @ Cores(1))()
            await cluster.assert_all_finished()

    opened = {Cores([7]): anyio.Event(), Cores([8]): anyio.Event()}
    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            for offer in opened:
                tasks.start_soon(task, offer)
    assert names == {offer: ("n1", offer.cores, ()) for offer in opened}


@pytest.mark.parametrize(
    ("silence", "error"), [("2", TypeError), (True, TypeError), (0.4, ValueError), (31, ValueError)]
)
def test_what_is_no_silence_is_refused(silence, error):
    with pytest.raises(error, match="silence is"):
        Cluster([Cores(1)], silence=silence)


@pytest.mark.anyio
async def test_jobs_of_a_killed_worker_run_elsewhere():
    with anyio.fail_after(LIMIT_S):
        async with Cluster([Cores(1)]) as cluster:
            events = cluster.executor.events()
            r_ = start((forever @ Cores(1))())
            assert await next_start(events) == ("n1", 1)
            more = [start((place @ Cores(1))()), start((forever @ GPUs(1))())]
            with pytest.raises(AssertionError) as raised:
                await cluster.assert_all_finished()
            for r_ in more:
                cancel(r_)
            told = str(raised.value).splitlines()
            assert told[0] == "3 jobs have not ended:"
            assert told[1].startswith("  forever: Job 1 runs on n1")
            assert told[2].startswith("  place: Job 2 waits for room: ")
            assert "forever: Job 3 waits for" in told[3]
            assert "gpus" in told[3]
            assert await cluster.kill_worker() == "n1"
            assert cluster.executor.workers() == []
            assert await cluster.start_worker(Cores(1) & Memory("1Gi")) == "n2"
            assert await next_start(events) == ("n2", 2)
            cancel(r_)
            with pytest.raises(KeyError, match="no worker 'n1'; there are n2"):
                await cluster.kill_worker("n1")


@pytest.mark.anyio
async def test_on_a_slow_link_all_arrives_later_and_after_the_block_at_once(tmp_path):
    mark = tmp_path / "mark"

    @delayed
    def leave_mark():
        mark.touch()
        return GVAR.instance

    with anyio.fail_after(LIMIT_S):
        async with Cluster([GPUs(1), Cores(1)]) as cluster:
            async with cluster.slow("n1", 0.1):
                began = anyio.current_time()
                assert await (leave_mark @ GPUs(1))() == "n1"
                assert anyio.current_time() - began >= 0.2  # there and back
                r_ = (moments @ GPUs(1))()
                first, last = await r_
                told = info(r_)
                assert told.began <= first <= last <= told.ended  # not when it was told
            mark.unlink()
            async with cluster.slow("n1", 10 * LIMIT_S):
                r_ = start((leave_mark @ GPUs(1))())
                for _ in range(3):  # the way to the other worker and back is as long as that to the mark
                    assert (await (place @ Cores(1))())[0] == "n2"
                assert not mark.exists()
            assert await r_ == "n1"
            assert mark.exists()
            with pytest.raises(KeyError, match="no worker 'n3'"):
                async with cluster.slow("n3", 1):
                    pass
            for wrong in (-1, float("nan"), float("inf"), "1", None):
                with pytest.raises(ValueError, match="0 seconds or more"):
                    async with cluster.slow("n1", wrong):
                        pass


@pytest.mark.anyio
async def test_a_worker_that_does_not_start_is_told_of_with_its_log():
    with anyio.fail_after(LIMIT_S):
        cluster = Cluster([Cores(1) | GPUs(1)])  # a choice is no offer, says the worker
        with pytest.raises(RuntimeError, match=r"worker n1 ended before it had connected:\n.*a choice is for requests"):
            await cluster
        assert not cluster._directory.exists()
        assert not cluster.executor.is_open


async def in_block(cluster):
    async with cluster:
        pass


async def standing(cluster):
    await cluster


@pytest.mark.anyio
@pytest.mark.parametrize("opened", [in_block, standing])
async def test_one_that_is_cancelled_before_its_executor_is_open_leaves_nothing(opened):
    cluster = Cluster([Cores(1)])
    assert cluster._directory.exists()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await opened(cluster)
    assert scope.cancelled_caught
    assert not cluster._directory.exists()
    assert not cluster.executor.is_open


@pytest.mark.anyio
async def test_one_that_is_open_cannot_be_opened_again_and_goes_on():
    with anyio.fail_after(LIMIT_S):
        async with Cluster([Cores(1)]) as cluster:
            for opened in (in_block, standing):
                with pytest.raises(RuntimeError):
                    await opened(cluster)
            assert cluster.client_json.exists()
            assert (await (place @ Cores(1))())[0] == "n1"


@pytest.mark.parametrize(
    ("nodes", "error"),
    [([], ValueError), (["cores=1"], TypeError), ([Cores(1), 2], TypeError), (2, TypeError), ("cores=1", TypeError)],
)
def test_what_is_no_node_is_refused_and_leaves_nothing(nodes, error, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(error, match="node"):
        Cluster(nodes)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("offer", "text", "following"),
    [
        (Cores(2) & GPUs(1), "cores=[7,8] gpus=1", 9),
        (GPUs(1), "gpus=1", 7),
        (Cores([3]), "cores=[3]", 7),
    ],
)
def test_numbers_of_cores_become_ids_of_a_node(offer, text, following):
    assert with_own_cores(offer, 7) == (text, following)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cluster_that_is_not_open_says_so():
    cluster = Cluster([Cores(1)])
    with pytest.raises(RuntimeError, match=r"not open: write `await Cluster\(\.\.\.\)`"):
        await cluster.kill_worker("n1")
    await cluster.aclose()


MISTAKES = """import pytest

def test_without_a_loop(executor): ...

@pytest.mark.anyio
def test_without_async(executor): ...

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_without_await(cluster):
    with pytest.raises(AttributeError, match=r"not open, so it has no 'kill_worker': write `await cluster"):
        cluster().kill_worker("n1")
"""


def test_the_suite_of_the_page_passes_with_both_plugins(tmp_path):
    page = ROOT / "docs" / "how-to" / "testing.md"
    files = {block.title: block.body for block in blocks_of(page.read_text()) if block.title}
    files["test_mistakes.py"] = MISTAKES
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    paths = os.pathsep.join([str(ROOT), str(ROOT / "worker")])
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "--tb=short"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths, "XDG_STATE_HOME": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert "31 passed, 3 errors" in ended.stdout, ended.stdout + ended.stderr
    assert "a cluster was not awaited, so none was opened: write `await cluster(...)`" in ended.stdout
    assert "test_mistakes.py::test_without_a_loop has no event loop" in ended.stdout
    assert "test_mistakes.py::test_without_async has no event loop" in ended.stdout
    assert "PASSED test_with_asyncio.py::test_one_call" in ended.stdout
    assert "PASSED test_sweep.py::test_a_node_fails[asyncio]" in ended.stdout
    assert "PASSED test_sweep.py::test_a_node_fails[trio]" in ended.stdout
    assert "PASSED test_errors.py::test_a_seed_without_data[trio]" in ended.stdout
    assert "PASSED test_nodes.py::test_the_other_node_runs_it_again" in ended.stdout
    assert "PASSED test_nodes.py::test_a_node_is_cut_off" in ended.stdout
    assert "PASSED test_module_with_asyncio.py::test_on_another_one" in ended.stdout
    assert "PASSED test_service.py::test_the_head_is_lost" in ended.stdout
    assert not (tmp_path / "state" / "grainlike" / "current").exists()
