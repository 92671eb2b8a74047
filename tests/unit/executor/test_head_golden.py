"""Journals of releases before, kept in `tests/data/journals`, are read by this one, now and for ever after."""

import importlib.util
import json
from pathlib import Path

import msgspec
import pytest

from grainlike.errors import JournalError
from grainlike.head.durable import _snapshot
from grainlike.head.durable._records import HeadBegan, WrittenBy, pack_input, unpack_input
from grainlike.head.durable._schema import SCHEMA
from grainlike.head.durable._snapshot import began_here
from grainlike.head.durable._store import HeadStore
from grainlike.journal import Journal, commit_image
from grainlike.net import ClosedLink

KEPT = Path(__file__).parents[2] / "data" / "journals"

_spec = importlib.util.spec_from_file_location("make_journals", KEPT / "make.py")
make = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make)


def a_copy(schema, directory):
    """A kept journal, as a head would find it."""
    directory.mkdir(mode=0o700)
    for file in (KEPT / f"schema-{schema}").iterdir():
        (directory / file.name).write_bytes(file.read_bytes())
        (directory / file.name).chmod(0o600)
    return directory


@pytest.fixture(autouse=True)
def software(monkeypatch):
    """The Python and pickler of the kept journals: no function is loaded here."""
    monkeypatch.setattr(_snapshot, "software", lambda: began().software)


def began(schema=SCHEMA):
    (path,) = (KEPT / f"schema-{schema}").glob("*.image")
    data = path.read_bytes()
    at = data.index(b"\xa7Rec")
    return msgspec.msgpack.decode(data[at + 28 :].split(b"\xa7Rec", 1)[0], type=_snapshot._Title).began


def restored(directory):
    """What a head finds in a journal."""
    store = HeadStore(directory, began_here(2))
    try:
        head, clients = make.a_head(store)
        store.restore(head, clients)
        return store.began, make.state_of(head, clients)
    finally:
        store.close()


@pytest.mark.parametrize("schema", range(1, SCHEMA + 1))
def test_a_journal_of_each_schema_is_read(schema, tmp_path):
    expected = json.loads((KEPT / f"schema-{schema}.json").read_text())
    directory = a_copy(schema, tmp_path / "journal")
    for _ in range(2):  # and by the head after that
        found_began, state = restored(directory)
        assert state == expected
        assert (found_began.seed, found_began.schema) == (1, SCHEMA)


def test_what_is_written_today_is_what_is_kept(tmp_path):
    """Red: what a head does of these inputs is not what it did: see `_schema.py`."""
    assert make.state_of(*make.write(tmp_path / "journal")) == json.loads((KEPT / f"schema-{SCHEMA}.json").read_text())
    names = {path.name for path in (tmp_path / "journal").iterdir()} - {"lock"}
    assert names == {path.name for path in (KEPT / f"schema-{SCHEMA}").iterdir()}


@pytest.mark.parametrize("schema", [5, 6, SCHEMA - 1])
def test_a_head_makes_room_by_the_rules_of_who_wrote_its_journal(schema, tmp_path):
    head, _ = make.write(tmp_path / "journal")
    transfers = head.state.scheduler._state.transfers
    assert transfers.rules == transfers.rooms.rules == SCHEMA
    head.decide_as(schema)
    assert transfers.rules == transfers.rooms.rules == schema
    store = HeadStore(a_copy(schema, tmp_path / "before"), began_here(2))
    try:
        found, clients = make.a_head(store)
        rules = []
        found.replay = lambda *_: rules.append(found.state.scheduler._state.transfers.rules) or True
        store.restore(found, clients)
        assert (rules, found.state.scheduler._state.transfers.rules) == ([schema], SCHEMA)
    finally:
        store.close()


def log_with(directory, *records):
    journal, _ = Journal.open(directory)
    for record in records:
        journal.append(pack_input(record))
    journal.close()
    return directory


def test_a_log_of_another_release_with_this_schema_is_read_and_goes_on(tmp_path):
    other = msgspec.structs.replace(began_here(7), version="0.0.1")
    directory = log_with(tmp_path / "journal", other)
    found, _ = restored(directory)
    assert (found.seed, found.version) == (7, began_here(1).version)
    journal, recovered = Journal.open(directory)
    journal.close()
    said = [unpack_input(record)[0] for record in recovered.records]
    assert [type(what) for what in said] == [HeadBegan, WrittenBy], "from there on, this release has written"
    restored(directory)
    journal, recovered = Journal.open(directory)
    journal.close()
    assert len(recovered.records) == 2


def test_a_log_is_replayed_by_the_rules_of_its_writer_and_the_next_head_decides_by_its_own(tmp_path):
    """Jobs of 0.1 to 0.25 s are sent ahead since schema 5: the replay of an older log must not say that some were."""
    store = HeadStore(tmp_path / "today", began_here(7))
    head, clients = make.a_head(store)
    store.restore(head, clients)
    clients.hear(clients.join(make.hello("client", "c"), ClosedLink("c", "here"), None), [make.submit(1, 2, here=True)])
    store.close()
    journal, recovered = Journal.open(tmp_path / "today")
    _, *inputs = recovered.records
    journal.close()
    assert quick(tmp_path / "today") == ([0.25], 0.25)
    before = msgspec.structs.replace(began_here(7), schema=4)
    journal, _ = Journal.open(tmp_path / "before")
    for record in (pack_input(before), *([record] for record in inputs)):
        if not isinstance(unpack_input(b"".join(record))[0], WrittenBy):
            journal.append(record)
    journal.close()
    assert quick(tmp_path / "before") == ([0.1], 0.25)


def quick(directory):
    """Mean seconds up to which jobs are sent ahead: of the functions that a head finds, and of those that come."""
    store = HeadStore(directory, began_here(2))
    try:
        head, clients = make.a_head(store)
        store.restore(head, clients)
        return [fn.quick_s for fn in head.state.scheduler._functions.values()], head.state.functions.quick_s
    finally:
        store.close()


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (SCHEMA + 1, rf"schema {SCHEMA + 1}, of grainlike 9\.9\.9, .* has schema {SCHEMA}: start it with that release"),
        ("a text", rf"schema 0, of grainlike 9\.9\.9, .* has schema {SCHEMA}, which has no conversion"),
    ],
)
def test_a_journal_of_a_schema_that_is_not_read_is_refused(schema, words, tmp_path):
    other = msgspec.structs.replace(began_here(7), version="9.9.9", schema=schema)
    with pytest.raises(JournalError, match=words):
        HeadStore(log_with(tmp_path / "log", other), began_here(1))
    directory = tmp_path / "image"
    journal, _ = Journal.open(directory)
    title = msgspec.msgpack.encode(_snapshot._Title(0.0, other))
    commit_image(directory, journal.begin_segment(), [title])
    journal.close()
    with pytest.raises(JournalError, match=words):
        HeadStore(directory, began_here(1))
    if isinstance(schema, int):  # a later release went on with a journal of ours
        with pytest.raises(JournalError, match=words):
            restored(log_with(tmp_path / "tail", began_here(7), WrittenBy(1.0, "9.9.9", schema)))
