"""The history of a head that is made again, of an image and of the log behind it, is that of the head before."""

import importlib.util
import time
from pathlib import Path

import msgspec
import pytest

from grainlike.head.durable import _snapshot, _store
from grainlike.head.durable._records import WrittenBy, unpack_input
from grainlike.head.durable._snapshot import began_here
from grainlike.head.durable._store import HeadStore, exported
from grainlike.history._form import KeptHistory, kept_from
from grainlike.journal import Journal
from grainlike.net import ClosedLink
from grainlike.resources import Cores, offer_of
from grainlike.wire import AskHistory, Frame, Withdraw

KEPT = Path(__file__).parents[2] / "data" / "journals"

_spec = importlib.util.spec_from_file_location("make_journals_again", KEPT / "make.py")
make = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make)


def ended(head):
    return head.history.page(AskHistory(0, 500)).jobs


def restored(directory):
    """The next head with a journal."""
    store = HeadStore(directory, began_here(2))
    try:
        head, clients = make.a_head(store)
        store.restore(head, clients)
        return head
    finally:
        store.close()


def calendars(directory):
    """How far the calendar was ahead, as the log behind the last image says it, once and again."""
    journal, found = Journal.open(directory)
    try:
        inputs = [unpack_input(record)[0] for record in found.records]
        return [what.calendar for what in inputs if isinstance(what, WrittenBy)]
    finally:
        journal.close()


def test_all_that_had_ended_is_known_again_of_the_image_and_of_the_log_behind_it(tmp_path):
    before, _ = make.write(tmp_path / "journal")
    jobs = ended(before)
    assert [job.job for job in jobs] == [2, 7, 1]
    assert all(job.queued_s is not None and job.request == "cores=1" for job in jobs)
    for _ in range(2):
        assert ended(restored(tmp_path / "journal")) == jobs


def test_the_names_of_calls_of_sessions_are_known_again(tmp_path):
    store = HeadStore(tmp_path / "journal", began_here(2))
    head, clients = make.a_head(store)
    store.restore(head, clients)
    offer = offer_of(Cores([0]), own_cores=(0,))
    worker = head.join(make.hello("worker", "n1"), offer, "n1", ClosedLink("n1", "here"))
    nightly = clients.join(make.hello("client", "s", "nightly"), ClosedLink("s", "here"), None)
    clients.hear(nightly, [make.submit(1, 3, here=True, name="part-")])
    head.hear(worker, [make.report(1, 1)])
    clients.hear(nightly, [Frame(Withdraw(0, 0, [2]), [])])
    store.close()
    assert [(job.job, job.named, job.outcome) for job in ended(head)] == [
        (2, "part-2", "cancelled"),
        (1, "part-1", "succeeded"),
    ]
    for _ in range(2):
        assert ended(restored(tmp_path / "journal")) == ended(head)


def test_where_the_calendar_was_is_known_though_the_clocks_of_the_next_machine_are_others(tmp_path, monkeypatch):
    before, _ = make.write(tmp_path / "journal")
    jobs = ended(before)
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + 1e6)
    after = restored(tmp_path / "journal")
    assert ended(after) == jobs
    assert after.calendar > before.calendar + 0.9e6
    [written] = calendars(tmp_path / "journal")
    assert written == after.calendar
    assert abs(time.time() - (after.now() + written)) < 60
    restored(tmp_path / "journal")
    assert len(calendars(tmp_path / "journal")) == 1, "it has not changed"
    exported(tmp_path / "journal")
    assert len(calendars(tmp_path / "journal")) == 1


def test_a_clock_that_is_set_while_the_head_runs_is_written_down(tmp_path, monkeypatch):
    store = HeadStore(tmp_path / "journal", began_here(2))
    head, clients = make.a_head(store)
    store.restore(head, clients)
    first = head.calendar
    store._note_calendar(store.append)
    monkeypatch.setattr(_store, "CALENDAR_S", -1.0)
    store._note_calendar(store.append)
    store.close()
    assert calendars(tmp_path / "journal") == [first, head.calendar]


def test_an_image_of_before_there_was_a_history_is_read(tmp_path):
    directory = tmp_path / "journal"
    directory.mkdir(mode=0o700)
    for file in (KEPT / "schema-1").iterdir():
        (directory / file.name).write_bytes(file.read_bytes())
        (directory / file.name).chmod(0o600)
    store_software = _began(directory).software
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_snapshot, "software", lambda: store_software)
        assert _began(directory).schema == 1
        assert [job.job for job in ended(restored(directory))] == [2], "what the log behind the image tells of"


def _began(directory):
    (path,) = directory.glob("*.image")
    data = path.read_bytes()
    return msgspec.msgpack.decode(data[data.index(b"\xa7Rec") + 28 :].split(b"\xa7", 1)[0], type=_snapshot._Title).began


@pytest.mark.parametrize("kept", [b"", b"garbage", KeptHistory(1, [], [0], [None, None], [0], ["", ""], {}, 99)])
def test_a_history_that_cannot_be_read_keeps_no_head_from_starting(kept, tmp_path, monkeypatch, caplog):
    data = kept if isinstance(kept, bytes) else msgspec.msgpack.encode(kept)
    monkeypatch.setattr("grainlike.head._history.JobHistory.packed", lambda history: data)
    make.write(tmp_path / "journal")
    assert kept_from(data) is None
    assert [job.job for job in ended(restored(tmp_path / "journal"))] == [2]
    assert ["forgotten" in message for message in caplog.messages] == [True] * bool(data)
