"""Copies of large values at a URL: who writes and reads them, what outlives all workers, and bad places."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from far import far_workers, far_workers_of_client, head_of, lose, records
from heads import head_process, listens
from limits import LIMIT_S
from test_faults_values import at_rest, lines
from value_calls import LARGE, make, size_of
from waiting import logged, until

from grainlike import Cores, Executor, Retry, ValueLostError, connect, delayed, gather, info, replicate

pytestmark = pytest.mark.asyncio

once = delayed(make.function.callable, retries=Retry(0, losses=0)) @ Cores(1)


@pytest.fixture(params=[far_workers, far_workers_of_client], ids=["embedded", "client"])
def far(request):
    """Far workers of a program that has a head, or uses one elsewhere."""
    return request.param


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory that all workers reach, as they are on this machine."""
    return tmp_path / "run7"


async def test_a_copy_outlives_all_workers_and_is_read_by_jobs_and_the_program(far, start_worker, tmp_path, place):
    log = tmp_path / "log"
    async with far(start_worker, "n1", "n2") as (executor, workers):
        values = [once(LARGE, str(log)), (make @ Cores(1))(LARGE, str(log))]
        await replicate(values, to=place.as_uri())
        assert len(list(place.iterdir())) == 2
        report = executor.report()
        assert (report.fetched, report.relayed) == (0, 0)  # no byte of it passed the head
        assert (report.succeeded, head_of(executor).totals().succeeded) == (2, 2)  # jobs that copy are not counted
        made = len(lines(log))
        for name in ("n1", "n2"):
            await lose(executor, workers, name)
        await until(lambda: not any(info(r_).where for r_ in values))  # clients hear it later
        start_worker(executor.address, name="n3")
        assert await (size_of @ Cores(1))(*values) == 2 * LARGE
        await until(lambda: [info(r_).where for r_ in values] == [("n3",)] * 2)  # clients hear of workers now and then
        assert len(await values[0]) == LARGE
        assert len(lines(log)) == made == 2
        assert (info(values[0]).recomputed, executor.report().recomputed) == (0, 0)
        assert "made again" not in str(await executor.explain(values[0]))
        values.clear()
        await at_rest(executor)


async def test_what_only_the_program_wants_is_read_from_the_copy(far, start_worker, place):
    async with far(start_worker, "n1") as (executor, workers):
        a_ = once(LARGE)
        await replicate(a_, to=place.as_uri())
        await lose(executor, workers, "n1")
        start_worker(executor.address, name="n2")
        assert await a_ == bytearray(LARGE)


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(bytes(path.stat().st_size))])
async def test_a_copy_that_is_gone_or_damaged_is_no_copy(start_worker, tmp_path, place, harm):
    log = tmp_path / "log"
    async with far_workers(start_worker, "n1") as (executor, workers):
        a_, b_ = (make @ Cores(1))(LARGE, str(log)), once(LARGE)
        await replicate([a_, b_], to=place.as_uri())
        for path in place.iterdir():
            harm(path)
        await lose(executor, workers, "n1")
        start_worker(executor.address, name="n2")
        assert len(await a_) == LARGE  # made again
        assert (len(lines(log)), executor.report().recomputed) == (2, 1)
        with pytest.raises(ValueLostError, match="its copy could not be read, and its function may not run again"):
            await b_
        assert [value.durable for value in records(executor).values()] == [None, None]


async def test_a_second_copy_takes_the_place_of_the_first_in_what_is_read(start_worker, place):
    async with far_workers(start_worker, "n1") as (executor, workers):
        a_ = once(LARGE)
        await replicate(a_, to=place.as_uri())
        for path in place.iterdir():
            path.unlink()
        await replicate(a_, 1, to=(place / "deeper" / "down").as_uri())
        await lose(executor, workers, "n1")
        start_worker(executor.address, name="n2")
        assert len(await a_) == LARGE


async def test_where_nothing_can_be_written_the_error_says_so_and_the_value_stays(far, start_worker, place):
    place.write_text("no directory")
    async with far(start_worker, "n1") as (executor, _):
        a_ = once(LARGE)
        with pytest.raises(OSError, match=r"^\[Errno \d+\] a copy of the value of make cannot be ") as told:
            await replicate(a_, to=place.as_uri())
        assert f"cannot be written to {place.as_uri()} (worker n1): " in str(told.value)
        assert str(told.value).endswith("; the value stays as it is")
        assert "write_copy" not in "".join(told.value.__notes__)
        assert info(a_).where == ("n1",)
        assert (executor.report().succeeded, executor.report().failed) == (1, 0)
        assert [job.name for job in await executor.history(outcomes=("failed",))] == ["copy of make"]
        assert len(await a_) == LARGE
        del a_, told  # its traceback has the value, too
        await at_rest(executor)


async def test_small_values_need_no_copy(place):
    async with Executor(local=Cores(1)):
        small_, list_ = (delayed(int) @ Cores(1))(3), gather((make @ Cores(1))(LARGE), (make @ Cores(1))(1))
        await replicate(small_, to=place.as_uri())
        assert not place.exists()
        await replicate(list_, to=place.as_uri())
        assert len(list(place.iterdir())) == 1


async def test_the_copy_of_a_named_call_serves_later_programs_of_its_session(start_worker, tmp_path, place):
    log = tmp_path / "log"
    async with far_workers(start_worker, "n1") as (head, workers):
        async with connect(head.address, session="s") as program:
            kept_ = program.name("kept", once(LARGE, str(log)))
            await replicate(kept_, to=place.as_uri())
            del kept_
        await lose(head, workers, "n1")
        start_worker(head.address, name="n2")
        async with connect(head.address, session="s") as program:
            kept_ = program.placeholders()["kept"]
            assert await kept_ == bytearray(LARGE)
            assert len(lines(log)) == 1
            (path,) = place.iterdir()
            assert str(await program.explain(kept_)).endswith(f"A copy of it was written to {path.as_uri()}.")
            del kept_
            await program.forget("kept")
        await at_rest(head)


@pytest.mark.parametrize("name", ["run7", "run 7", "run%207"])
async def test_a_head_that_was_killed_still_knows_the_copy_of_a_named_call(start_worker, tmp_path, name):
    place, log, journal = tmp_path / name, tmp_path / "log", tmp_path / "journal"
    heads = [head_process(journal)]
    try:
        async with asyncio.timeout(LIMIT_S):
            address = await listens(heads[0])
            first = start_worker(address)
            async with connect(address, session="s") as program:
                await replicate(program.name("kept", once(LARGE, str(log))), to=place.as_uri())
            heads[0].kill()
            heads[0].communicate()
            first.process.kill()
            heads.append(head_process(journal))
            assert await listens(heads[1]) == address
            start_worker(address, name="n2")
            async with connect(address, session="s") as program:
                kept_ = program.placeholders()["kept"]
                assert await kept_ == bytearray(LARGE)
                assert len(lines(log)) == 1
                (path,) = place.iterdir()
                assert f"A copy of it was written to file://{path}." in str(await program.explain(kept_))
    finally:
        for head in heads:
            head.kill()
            head.communicate()


async def test_a_journal_of_before_escapes_were_understood_leads_to_the_same_file(start_worker, tmp_path, monkeypatch):
    place, log, journal = tmp_path / "run%207", tmp_path / "log", tmp_path / "journal"
    heads = [head_process(journal)]
    try:
        async with asyncio.timeout(LIMIT_S):
            address = await listens(heads[0])
            first = start_worker(address)
            with monkeypatch.context() as before:
                before.setattr("grainlike.calls.unescaped", lambda url: url)  # as a program of before
                async with connect(address, session="s") as program:
                    await replicate(program.name("kept", once(LARGE, str(log))), to=f"file://{place}")
            (path,) = place.iterdir()
            heads[0].kill()
            heads[0].communicate()
            first.process.kill()
            heads.append(head_process(journal))
            assert await listens(heads[1]) == address
            start_worker(address, name="n2")
            async with connect(address, session="s") as program:
                kept_ = program.placeholders()["kept"]
                assert await kept_ == bytearray(LARGE)
                assert len(lines(log)) == 1
                assert f"A copy of it was written to file://{path}." in str(await program.explain(kept_))
    finally:
        for head in heads:
            head.kill()
            head.communicate()


async def test_explain_tells_of_the_copy_and_a_warning_of_one_that_cannot_be_read(far, start_worker, place, caplog):
    async with far(start_worker, "n1") as (executor, workers):
        a_ = (make @ Cores(1))(LARGE)
        await replicate(a_, to=place.as_uri())
        (path,) = place.iterdir()
        written = f"A copy of it was written to {path.as_uri()}."
        assert str(await executor.explain(a_)).endswith(f"is at n1. {written}")
        await lose(executor, workers, "n1")
        await until(lambda: info(a_).where == ())
        said = f"if a job needs it, it is made again, or read from its copy where it can be. {written}"
        assert str(await executor.explain(a_)).endswith(said)
        path.unlink()
        start_worker(executor.address, name="n2")
        assert len(await a_) == LARGE
        times = 1 if head_of(executor) is getattr(executor._service, "head", None) else 2  # the head's own, and ours
        for warning in await logged(caplog, "The value is at no worker", times):
            assert "the copy of the value of make at" in warning
            assert path.as_uri() in warning
            assert "read_copy" not in warning
