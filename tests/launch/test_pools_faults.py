"""Pools on a real Slurm that refuses, is silent, or loses blocks; and heads that are killed meanwhile."""

import asyncio
import json
from functools import partial

import pytest
from limits import LIMIT_S
from slurm_pools import HeadProgram, command, ended, opened, pool_row, slurm_pool, until_counted, until_up, where
from waiting import until, until_files

from grainlike import Cores, LaunchError, cancel, start

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("private_state", "often_listed")]


async def test_a_refused_partition_is_told_at_the_prompt_in_slurms_words(slurm, submitted):
    nowhere = slurm_pool(queue="nowhere", min=1)
    with pytest.raises(LaunchError, match="invalid partition specified: nowhere") as caught:
        async with opened(nowhere):
            pytest.fail("it opened")
    assert caught.value.command == ("sbatch", "--parsable")
    assert "#SBATCH --partition=nowhere" in caught.value.script
    async with opened() as executor:
        with pytest.raises(LaunchError, match="invalid partition specified: nowhere"):
            await executor.up(nowhere, name="cpu")
        assert "invalid partition specified: nowhere" in pool_row(executor).paused, "it stays, paused"
        assert executor.blocks() == []
    assert submitted.all() == []


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"queue": "nowhere"}, "invalid partition specified: nowhere"),
        ({"queue": "minute", "walltime": "0:05:00"}, "Requested time limit is invalid"),
        ({"resources": "cores=64"}, "More processors requested than permitted"),
    ],
)
async def test_what_slurm_would_never_take_is_told_before_a_job_waits(slurm, submitted, keys, words):
    async with opened() as executor:
        with pytest.raises(LaunchError, match=words) as caught:
            await executor.up(slurm_pool(**keys), name="cpu")
        assert caught.value.command == ("sbatch", "--test-only")
        assert words in pool_row(executor).paused
        assert pool_row(executor).max == 1
        await executor.up(slurm_pool(), name="cpu")
        assert pool_row(executor).paused == "", "it is mended"
    assert submitted.all() == []


async def test_what_slurm_would_keep_or_cannot_answer_now_is_no_reason_against_a_pool(slurm, submitted, instead):
    async with opened() as executor:
        slurm.say("scontrol", "update", "NodeName=ALL", "State=DRAIN", "Reason=test")
        try:
            await executor.up(slurm_pool(), name="cpu")
        finally:
            slurm.say("scontrol", "update", "NodeName=ALL", "State=RESUME")
        assert pool_row(executor).paused == ""
        instead.of("sbatch", 'echo "sbatch: error: Unable to contact slurm controller (connect failure)" >&2; exit 1')
        await executor.up(slurm_pool(max=2), name="cpu")
        assert instead.calls("sbatch") == 1
        assert (pool_row(executor).max, pool_row(executor).paused) == (2, "")
    assert submitted.all() == []


async def test_a_program_opens_with_a_pool_that_no_job_wants_yet(slurm, submitted):
    async with opened(slurm_pool(queue="nowhere")) as executor:
        assert pool_row(executor).paused == ""
        job = start((where @ Cores(1))())
        await until(lambda: "invalid partition" in pool_row(executor).paused)
        cancel(job)
    assert submitted.all() == []


async def test_blocks_without_a_python_pause_their_pool_until_it_has_a_good_one(slurm, submitted):
    async with opened(slurm_pool(python="/nonexistent")) as executor:
        r_ = start((where @ Cores(1))())
        await until(lambda: executor.pools() and pool_row(executor).paused)
        assert "/nonexistent" in pool_row(executor).paused
        assert "/nonexistent" in str(await executor.explain(r_))
        assert len(submitted.all()) == 1
        await executor.up(slurm_pool(), name="slurm")
        native = await r_
        assert [row.native for row in await until_up(executor, 1)] == [native]
        assert pool_row(executor).paused == ""
        assert len(submitted.all()) == 2


async def test_a_submission_that_was_taken_without_an_answer_is_adopted(slurm, submitted, instead):
    words = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
    instead.of("sbatch", f'"$REAL" "$@" >/dev/null; echo "{words}" >&2; exit 1')
    async with opened(slurm_pool(max=4)) as executor:
        native = await (where @ Cores(1))()
        (row,) = await until_up(executor, 1)
        assert [number for number, _ in submitted.all()] == [native] == [row.native]
        assert (row.label, instead.calls("sbatch")) == ("slurm-1", 1)
        assert ended(executor) == []


async def test_while_no_listing_comes_nothing_is_submitted_and_nothing_ended(slurm, submitted, gate, instead):
    async with opened(slurm_pool(max=4)) as executor:
        first = start(gate.job(0))
        (row,) = await until_up(executor, 1)
        instead.of("squeue", 'echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1')
        await until(lambda: instead.calls("squeue") >= 2)
        more = [start(gate.job(number)) for number in range(1, 6)]
        await until(lambda: "does not answer" in pool_row(executor).why)
        assert "Unable to contact slurm controller" in pool_row(executor).why
        await until(lambda: pool_row(executor).wanted == 3)
        calls = instead.calls("squeue")
        await until(lambda: instead.calls("squeue") >= calls + 2)
        assert [(row.label, row.state) for row in executor.blocks()] == [("slurm-1", "up")]
        assert submitted.all() == [(row.native, "RUNNING")]
        instead.of("squeue", 'exec "$REAL" "$@"')
        await until_up(executor, 4)
        await gate.until_in(4)
        gate.open()
        assert await first == row.native
        assert len({await job for job in more}) >= 3
        assert len(submitted.all()) == 4


async def test_blocks_that_end_before_a_worker_joins_pause_their_pool_after_the_third(slurm, submitted, monkeypatch):
    monkeypatch.setattr("grainlike.fleet._endings.HOLD_S", 0.1)
    async with opened(slurm_pool(setup=["echo the disk is gone", "exit 3"])) as executor:
        r_ = start((where @ Cores(1))())
        await until(lambda: executor.pools() and pool_row(executor).paused)
        await until(lambda: "the disk is gone" in pool_row(executor).paused)
        assert "3 blocks in a row ended before a worker joined" in pool_row(executor).paused
        await until_counted()
        assert [state for _, state in submitted.all()] == ["FAILED"] * 3
        cancel(r_)


async def test_a_head_that_is_killed_within_sbatch_finds_the_block_and_later_its_workers(
    slurm, submitted, instead, tmp_path
):
    async def blocks_are(state):
        rows = json.loads(await command("blocks", "--json"))
        return rows if [(row["state"], row["workers"]) for row in rows] == [(state, int(state == "up"))] else None

    began, killed = tmp_path / "began", tmp_path / "killed"
    taken = '"$REAL" --hold "$@" >/dev/null'  # its worker is not to start before there is a head again
    head = HeadProgram(tmp_path / "journal")
    async with asyncio.timeout(LIMIT_S):
        await head.start()
        instead.of("sbatch", f"{taken}; touch {began}; while ! [ -e {killed} ]; do sleep 0.1; done")
        asking = asyncio.create_task(
            command("up", "slurm", "-n", "1", "--resources", "cores=1", "--walltime", "0:05:00")
        )
        await until_files(tmp_path, began.exists)
        await head.kill()
        killed.touch()
        instead.of("sbatch", '"$REAL" "$@"')
        await head.start()
        await asking
        [held] = await until(partial(blocks_are, "pending"))
        slurm.say("scontrol", "release", held["native"])
        [row] = await until(partial(blocks_are, "up"))
        assert [number for number, _ in submitted.all()] == [held["native"]] == [row["native"]]
        [worker] = json.loads(await command("ls", "--json"))
        await head.kill()
        await head.start()
        [again] = await until(partial(blocks_are, "up"))
        [same] = json.loads(await command("ls", "--json"))
        assert (again["label"], again["native"]) == (row["label"], row["native"]) == ("slurm-1", row["native"])
        assert same["pid"] == worker["pid"]
        assert len(submitted.all()) == 1
        await head.stop()
        assert submitted.in_queue() == []


async def test_a_block_that_begins_while_its_head_is_down_is_replaced_and_counts_for_nothing(
    slurm, submitted, instead, tmp_path
):
    head = HeadProgram(tmp_path / "journal")
    async with asyncio.timeout(LIMIT_S):
        await head.start()
        instead.of("sbatch", '"$REAL" --hold "$@"')
        await command("up", "slurm", "-n", "1", "--resources", "cores=1", "--walltime", "0:05:00")
        [(held, _)] = submitted.all()
        await head.kill()
        slurm.say("scontrol", "release", held)
        assert await asyncio.to_thread(slurm.end_of, held) == "FAILED 3:0"
        instead.of("sbatch", 'exec "$REAL" "$@"')
        await head.start()
        await until_files(tmp_path, lambda: len(submitted.all()) == 2)
        first, second = json.loads(await command("blocks", "--all", "--json"))
        assert (first["native"], first["state"]) == (held, "ended")
        assert first["reason"].endswith("no head was there when it began")
        assert second["native"] != held
        [row] = json.loads(await command("pools", "--json"))
        assert row["paused"] == ""
        await head.stop()
