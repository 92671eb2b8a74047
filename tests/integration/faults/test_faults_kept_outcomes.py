"""Outcomes of a session beyond its share of memory are on disk, up to a budget: nothing that was promised is lost."""

import asyncio
import contextlib
import errno
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from heads import head_process, listens
from journaled_heads import made_again
from limits import LIMIT_S
from waiting import logged, until, until_files
from weather import Weather, port, way_through

from grainlike import Cores, Executor, SessionError, connect, delayed, gather, info
from grainlike.cli import main
from grainlike.client._connection import call
from grainlike.head.durable import HeadDaemon, _store
from grainlike.head.durable._head import DurableHead
from grainlike.head.server import _outcome_store, _sessions
from grainlike.head.server._outcome_store import OutcomeStore
from grainlike.wire import AskSessions, SessionsAre

pytestmark = pytest.mark.asyncio

ROOT = Path(__file__).parents[3]
TLS = "tcp://127.0.0.1:0"
SIZE = 3000


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A session keeps 2 000 bytes in memory, and answers come in pieces."""
    monkeypatch.setattr(_sessions, "KEPT_BYTES", 2000)
    monkeypatch.setattr(_outcome_store, "KEPT_BYTES", 2000)
    monkeypatch.setattr(_outcome_store, "LOOK_S", 0.01)
    monkeypatch.setattr(_outcome_store, "CHUNK", 700)


@delayed
async def block(letter):
    return letter.encode() * SIZE


@delayed
async def fails(text):
    raise ArithmeticError(text * SIZE)


def kept(folder):
    return sorted(name for _, _, names in os.walk(folder) for name in names if name[0].isdigit())


async def sessions():
    async with call() as caller:
        return (await caller.ask(AskSessions(0), SessionsAre)).sessions


@contextlib.asynccontextmanager
async def a_head(journal=None, keep=None, *, leaves=False):
    async with HeadDaemon(TLS, journal=journal, keep=keep) as daemon:
        daemon.leaves = leaves
        yield daemon


async def fill(letters, folder):
    """Let a program leave an outcome under each letter, and wait until they are on disk."""
    async with connect(session="sweep") as ex:
        await ex.wait_for_workers(1)
        named = [ex.name(letter, (block @ Cores(1))(letter)) for letter in letters]
        assert [value[:1].decode() for value in await gather(named)] == list(letters)
    await until_files(folder, lambda: len(kept(folder)) >= len(letters))


async def test_outcomes_beyond_memory_are_all_found_by_the_next_program(private_state):
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(2)):
        async with connect(session="sweep") as ex:
            assert await ex.name("small", (delayed(bytes) @ Cores(1))(100)) == bytes(100)
            bad_ = ex.name("bad", (fails @ Cores(1))("no"))
            with pytest.raises(ArithmeticError):
                await bad_
        await fill("abcdefgh", private_state / "outcomes")
        [row] = await sessions()
        assert (row.outcomes, row.kept_bytes > 8 * SIZE, row.limit_bytes > row.kept_bytes) == (10, True, True)
        async with connect(session="sweep") as ex:
            found = ex.placeholders()
            assert info(found["a"]).state == "lazy"
            assert await found["small"] == bytes(100)
            assert [await found[letter] for letter in "hgfedcba"] == [c.encode() * SIZE for c in "hgfedcba"]
            with pytest.raises(ArithmeticError, match="nono"):
                await found["bad"]
        async with connect(session="sweep") as ex:  # also several at a time, and as inputs
            found = ex.placeholders()
            assert len(await gather(found[letter] for letter in "abcdefgh")) == 8
            assert len(await (ex.placeholders()["a"] + b"more")) == SIZE + 4
            await ex.forget(*found)
        await until_files(private_state, lambda: kept(private_state) == [])
    assert not (private_state / "outcomes").exists()


async def test_an_awaiter_that_gives_up_takes_nothing_from_the_session(private_state, monkeypatch):
    asked = asyncio.Event()

    async def never(self, link, question, call):
        asked.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(2)):
        await fill("a", private_state)
        with monkeypatch.context() as patch:
            patch.setattr(OutcomeStore, "tell", never)
            async with connect(session="sweep") as ex:
                waiting = asyncio.ensure_future(ex.placeholders()["a"])
                await asked.wait()
                waiting.cancel()
                await asyncio.wait([waiting])
        async with connect(session="sweep") as ex:
            assert await ex.placeholders()["a"] == b"a" * SIZE


async def test_an_answer_goes_on_where_its_link_broke(private_state, tmp_path, monkeypatch):
    monkeypatch.setattr(_outcome_store, "CHUNK", 10)
    told = OutcomeStore.tell
    breaks = asyncio.Event()

    async def tell(self, link, question, call):
        if not breaks.is_set():
            breaks.set()
            asyncio.get_running_loop().call_soon(weather.reset)
        await told(self, link, question, call)

    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(2)) as head, Weather(port(head)) as weather:
        await fill("ab", private_state)
        monkeypatch.setattr(OutcomeStore, "tell", tell)
        async with connect(way_through(weather, head, tmp_path, "client"), session="sweep") as ex:
            assert await gather(ex.placeholders().values()) == [b"a" * SIZE, b"b" * SIZE]
        assert breaks.is_set()


async def test_at_the_budget_calls_with_names_are_refused_and_others_run(private_state, start_worker, caplog, capsys):
    caplog.set_level(logging.WARNING, "grainlike")
    async with asyncio.timeout(LIMIT_S), a_head(keep=2 * SIZE) as daemon:
        start_worker(daemon.address, resources="cores=2")
        await fill("ab", private_state)
        await logged(caplog, "no new ones are taken")
        async with connect(session="sweep") as ex:
            more_ = ex.name("c", (block @ Cores(1))("c"))
            other_ = (block @ Cores(1))("d")
            with pytest.raises(SessionError, match=r"take 6,\d+ of 6,000 bytes, .* forget some"):
                await more_
            assert await other_ == b"d" * SIZE
            assert await asyncio.to_thread(main, ["sessions"]) == 0
            out, err = capsys.readouterr()
            assert "6k" in out
            assert "forget some" in err
            assert "this head has no journal" in err
            await ex.forget("a")
            assert await ex.name("e", (block @ Cores(1))("e")) == b"e" * SIZE
            assert await ex.placeholders()["b"] == b"b" * SIZE


async def test_at_four_fifths_of_the_budget_a_warning_is_logged_and_calls_with_names_are_taken(
    private_state, start_worker, caplog
):
    caplog.set_level(logging.WARNING, "grainlike")
    budget = 3 * SIZE * 5 // 4
    async with asyncio.timeout(LIMIT_S), a_head(keep=budget) as daemon:
        start_worker(daemon.address, resources="cores=2")
        store = daemon._service._store
        await fill("ab", private_state)
        await until(lambda: len(list(store._sessions().files())) == 2)
        store._look_at_budget()
        assert "forget some" not in caplog.text
        await fill("c", private_state)
        await logged(caplog, f"of {budget:,} bytes; at that no new ones are taken: forget some")
        assert 0.8 * budget <= store._sessions().size < budget
        assert store.refusal() is None


@pytest.mark.parametrize(("free", "budget"), [(100_000, 50_000), (100, 2000)])
async def test_without_a_word_half_of_what_is_free_is_the_budget(free, budget, private_state, monkeypatch):
    asked = []
    monkeypatch.setattr(_outcome_store, "_free", lambda directory: asked.append(directory) or free)
    async with asyncio.timeout(LIMIT_S), a_head(), connect(session="sweep"):
        [row] = await sessions()
        assert row.limit_bytes == budget
    assert asked[0].is_relative_to(private_state)


async def test_what_is_free_is_asked_of_the_disk_where_the_directory_will_be(tmp_path):
    status = os.statvfs(tmp_path)
    [total, free] = [status.f_blocks * status.f_frsize, _outcome_store._free(tmp_path / "a" / "b")]
    assert 0 < free <= total


async def test_keep_on_the_command_line_is_the_budget(private_state, tmp_path):
    head = head_process(tmp_path / "journal", "--keep", "20Gi")
    try:
        async with asyncio.timeout(LIMIT_S):
            await listens(head)
            async with connect(session="sweep"):
                [row] = await sessions()
            assert row.limit_bytes == 20 * 1024**3
    finally:
        head.kill()
        head.communicate()


async def test_where_the_disk_refuses_outcomes_stay_in_memory(private_state, start_worker, monkeypatch, caplog):
    write = OutcomeStore._write
    full = True

    def refuse(self, name, pieces):
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, name, pieces)

    monkeypatch.setattr(OutcomeStore, "_write", refuse)
    async with asyncio.timeout(LIMIT_S), a_head() as daemon:
        start_worker(daemon.address, resources="cores=2")
        async with connect(session="sweep") as ex:
            await ex.wait_for_workers(1)
            assert await ex.name("a", (block @ Cores(1))("a")) == b"a" * SIZE
            await logged(caplog, "stay in memory")
            more_ = ex.name("more", (block @ Cores(1))("m"))
            with pytest.raises(SessionError, match=r"No space left.*make room"):
                await more_
        async with connect(session="sweep") as ex:
            assert await ex.placeholders()["a"] == b"a" * SIZE
        full = False
        await logged(caplog, "written to disk again")  # the file is there before the head has heard so
        assert kept(private_state) != []
        async with connect(session="sweep") as ex:
            assert await ex.name("b", (block @ Cores(1))("b")) == b"b" * SIZE
            assert await ex.placeholders()["a"] == b"a" * SIZE


@pytest.mark.parametrize("images", [None, (0, 0, 0.05)])
async def test_the_next_head_with_a_journal_finds_the_files(images, start_worker, tmp_path, monkeypatch):
    if images:
        for name, value in zip(("IMAGE_BYTES", "IMAGE_TIMES", "LOOK_S"), images, strict=True):
            monkeypatch.setattr(_store, name, value)
    journal = tmp_path / "journal"
    async with asyncio.timeout(LIMIT_S):
        async with a_head(journal, 4 * SIZE, leaves=True) as daemon:
            start_worker(daemon.address, resources="cores=2")
            await fill("abcd", journal / "outcomes")
            async with connect(session="sweep") as ex:
                with pytest.raises(SessionError, match="forget some"):
                    await ex.name("e", (block @ Cores(1))("e"))
            if images:
                await until(lambda: len(list(daemon._service._store._sessions().files())) == 4)
                # The next may have been begun before the head knew that the last outcome is on disk; the one after that
                # was not.
                first = newest_image(journal)
                await until_files(journal, lambda: newest_image(journal) >= first + 2)
        files = kept(journal / "outcomes")
        assert len(files) == 4
        if images:
            (journal / "outcomes" / files[2]).unlink()
            damaged = journal / "outcomes" / files[3]
            damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
        (journal / "outcomes" / "99-1").write_bytes(b"nobody's")
        async with a_head(journal, 9 * SIZE, leaves=True), connect(session="sweep") as ex:
            found = ex.placeholders()
            assert list(found) == list("abcd")
            assert await found["b"] == b"b" * SIZE
            if images:
                with pytest.raises(SessionError, match="the outcome of 'c' is lost"):
                    await found["c"]
                with pytest.raises(SessionError, match="damaged"):
                    await found["d"]
            else:
                assert await found["d"] == b"d" * SIZE
            await until_files(journal, lambda: "99-1" not in kept(journal / "outcomes"))
            await ex.forget("a")
            await until_files(journal, lambda: files[0] not in kept(journal / "outcomes"))
        async with a_head(journal), connect(session="sweep") as ex:
            assert list(ex.placeholders()) == list("bcd")
            assert await ex.placeholders()["b"] == b"b" * SIZE
        assert not (journal / "outcomes").exists()
        assert [row.name for row in await the_sessions_of(journal)] == []


def newest_image(journal):
    return max((int(path.stem) for path in journal.glob("*.image")), default=0)


async def the_sessions_of(journal):
    async with a_head(journal):
        return await sessions()


async def test_a_closed_head_leaves_nothing_of_its_jobs_on_disk(start_worker, tmp_path):
    journal = tmp_path / "journal"
    async with asyncio.timeout(LIMIT_S):
        async with a_head(journal) as daemon:
            start_worker(daemon.address, resources="cores=2")
            async with connect(session="sweep") as ex:
                await ex.wait_for_workers(1)
                assert len(await ex.name("big", (delayed(os.urandom) @ Cores(1))(3_000_000))) == 3_000_000
            await until_files(journal, lambda: kept(journal) != [])
        left = {path.name: path.stat().st_size for path in journal.rglob("*") if path.is_file()}
        assert sum(left.values()) < 100_000, left


async def test_what_a_killed_head_left_is_removed_by_the_next(private_state, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'worker'}")
    hold = (
        "import sys, pathlib; from grainlike.net import hold_lock; folder = pathlib.Path(sys.argv[1]);"
        "lock = hold_lock(folder); lock.__enter__(); (folder / '7-1').write_bytes(b'x' * 1000);"
        "print('held', flush=True); sys.stdin.read()"
    )
    lives, dead = private_state / "outcomes" / "lives", private_state / "outcomes" / "dead"
    for folder in (lives, dead):
        folder.mkdir(mode=0o700, parents=True)
    for folder in (private_state.parent, private_state, lives.parent):
        folder.chmod(0o700)
    with contextlib.ExitStack() as stack:
        processes = []
        for folder in (lives, dead):
            command = [sys.executable, "-c", hold, str(folder)]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: ASYNC220
            processes.append(stack.enter_context(process))
            stack.callback(process.kill)
            assert process.stdout is not None
            assert await asyncio.to_thread(process.stdout.readline) == b"held\n"
        processes[1].send_signal(signal.SIGKILL)
        processes[1].wait()
        async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(1)):
            await until_files(dead.parent, lambda: not dead.exists())
        assert (lives / "7-1").exists()
    shutil.rmtree(lives)


async def test_what_is_forgotten_while_it_is_written_leaves_no_file(private_state, monkeypatch):
    write, begun, go_on = OutcomeStore._write, threading.Event(), threading.Event()

    def slow(self, name, pieces):
        begun.set()
        assert go_on.wait(LIMIT_S)
        return write(self, name, pieces)

    monkeypatch.setattr(OutcomeStore, "_write", slow)
    async with asyncio.timeout(LIMIT_S), Executor(listen=TLS, local=Cores(2)):
        async with connect(session="sweep") as ex:
            ex.name("a", (block @ Cores(1))("a"))
            assert await asyncio.to_thread(begun.wait, 60)
            await ex.forget("a")
            ex.name("b", (block @ Cores(1))("b"))
            await ex.placeholders()["b"]
        go_on.set()
        # They are written in order, and the first is removed while the second may be written.
        await until_files(private_state, lambda: [name[-2:] for name in kept(private_state)] == ["-2"])
        async with connect(session="sweep") as ex:
            assert await ex.placeholders()["b"] == b"b" * SIZE


async def test_a_refused_name_is_refused_again_for_the_same_reason_when_the_head_is_made_again(
    start_worker, tmp_path, monkeypatch
):
    journal, refused = tmp_path / "journal", []
    refuse = DurableHead.refuse_for

    def note(self, home, message, buffers, paths, owner, error):
        refused.append((type(error), str(error), list(message.names)))
        refuse(self, home, message, buffers, paths, owner, error)

    monkeypatch.setattr(DurableHead, "refuse_for", note)
    async with asyncio.timeout(LIMIT_S), a_head(journal, SIZE) as daemon:
        start_worker(daemon.address, resources="cores=2")
        await fill("a", journal / "outcomes")
        async with connect(session="sweep") as ex:
            with pytest.raises(SessionError, match="forget some"):
                await ex.name("b", (block @ Cores(1))("b"))
        made_again(journal, tmp_path, 1)
    assert [one[2] for one in refused] == [["b"], ["b"]]
    assert refused[0] == refused[1]
    assert refused[0][0] is SessionError
