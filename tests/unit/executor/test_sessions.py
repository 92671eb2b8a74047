"""What is kept in a named session: it follows from messages alone, and is told to whoever attaches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from grainlike.errors import ProtocolError
from grainlike.head.server import _sessions
from grainlike.head.server._sessions import KeptFile, NamedSession, Sessions
from grainlike.wire import (
    Began,
    Buffer,
    Message,
    Numbered,
    Outcomes,
    RetrySpec,
    SessionIs,
    Submit,
    SubmittedFunction,
    pack_parcels,
    unpack_parcels,
)

FIT = SubmittedFunction(b"digest", "fit", False, None, RetrySpec(), False, False, False)


class Program:
    """Somebody who is attached, and what it hears."""

    name = "host:1"

    def __init__(self) -> None:
        self.heard: list[tuple[Message, Sequence[Buffer]]] = []

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        self.heard.append((message, buffers))

    @property
    def messages(self) -> list[Message]:
        return [message for message, _ in self.heard]

    def values(self) -> dict[int, tuple[bytes, list[bytes]]]:
        """The outcomes that have come."""
        found = {}
        for message, buffers in self.heard:
            if isinstance(message, Outcomes):
                parcels = unpack_parcels(message.data, message.counts, buffers)
                for child, (data, own) in zip(message.children, parcels, strict=True):
                    found[child] = (data, [bytes(buffer) for buffer in own])
        return found


def submission(*names: str, first: int = 1) -> Submit:
    children = list(range(first, first + len(names)))
    return Submit(0, 0, "cores=1", 0, False, [FIT], children, [0] * len(names), [b""] * len(names), [], list(names))


def outcomes(parcels: dict[int, tuple[bytes, list[bytes]]]) -> tuple[Outcomes, Sequence[Buffer]]:
    n = len(parcels)
    data, counts, buffers = pack_parcels(parcels.values())
    columns: list[Any] = [["n1"] * n, ["cores=[0]"] * n, [1] * n, [0.5] * n, [0.5] * n, [1] * n, [None] * n]
    return Outcomes(0, 0, list(parcels), [True] * n, *columns, data, counts), buffers


@pytest.fixture
def session() -> NamedSession:
    return Sessions().open("sweep", 7, 0.0)


def attached(session: NamedSession) -> Program:
    program: Any = Program()
    session.attach(program, lambda job: job / 2)
    found: Program = program
    return found


def test_whoever_attaches_hears_what_has_a_name_where_it_runs_and_what_is_kept(session: NamedSession) -> None:
    session.submits(submission("a", "", "b", "c"))
    session.post(Numbered([1, 2, 3, 4], [11, 12, 13, 14]))
    session.post(Began([1, 2, 3], [1, 1, 2], ["n1", "n1", "n2"], ["cores=[0]", "cores=[1]", "cores=[0]"]))
    session.post(*outcomes({2: (b"two", []), 1: (b"x" * 20_000, [b"more"])}))
    program = attached(session)
    assert program.messages[:2] == [
        SessionIs(4, ["a", "b", "c"], [1, 3, 4], [11, 13, 14], ["fit"] * 3, ["cores=1"] * 3, [-1] * 3),
        Began([3], [2], ["n2"], ["cores=[0]"], [6.5]),
    ]
    assert program.values() == {1: (b"x" * 20_000, [b"more"])}
    row = session.row(9.0)
    assert (row.client, row.jobs, row.names, row.outcomes, row.kept_bytes) == (7, 2, 3, 1, 20_004)
    assert (row.since_s, row.attached) == (9.0, "host:1")


def test_the_same_messages_make_the_same_session() -> None:
    told = []
    for _ in range(2):
        session = Sessions().open("sweep", 7, 0.0)
        session.submits(submission("a", "b"))
        session.post(Numbered([1, 2], [11, 12]))
        session.post(*outcomes({1: (b"one", [])}))
        session.withdraws([2])
        session.submits(submission("b", first=3))
        told.append((attached(session).heard, session.row(0.0)))
    assert told[0] == told[1]


def test_a_call_may_end_by_being_submitted(session: NamedSession) -> None:
    session.submits(submission("a"))
    session.post(*outcomes({1: (b"it can not be", [])}))
    session.post(Numbered([1], [11]))
    assert (session.row(0.0).jobs, session.row(0.0).outcomes) == (0, 1)


def test_what_does_not_fit_into_memory_is_kept_apart_and_told_to_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sessions, "KEPT_BYTES", 10_000)
    sessions = Sessions()
    session = sessions.open("sweep", 7, 0.0)
    session.submits(submission("a", "b"))
    program = attached(session)
    session.post(*outcomes({1: (bytes(10_001), []), 2: (b"small", [])}))
    assert program.values() == {1: (bytes(10_001), []), 2: (b"small", [])}
    later = attached(session)
    assert later.values() == {2: (b"small", [])}
    assert later.messages[0] == SessionIs(2, ["a", "b"], [1, 2], [0, 0], ["fit"] * 2, ["cores=1"] * 2, [10_001, -1])
    [(call, name)] = sessions.spill.fresh
    assert (session.kept_apart(1), session.kept_apart(2), name) == (call, None, "7-1")
    call.outcome = KeptFile(name, 10_001, 0)
    assert list(sessions.files()) == [call.outcome]
    session.forgets(["a"])
    assert (session.kept_apart(1), sessions.spill.gone, sessions.size) == (None, ["7-1"], 5)


def test_what_is_forgotten_or_withdrawn_makes_room(session: NamedSession) -> None:
    session.submits(submission("a", "b"))
    session.post(*outcomes({1: (b"one", []), 2: (b"two", [])}))
    assert session.size == 6
    session.forgets(["a", "never"])
    session.withdraws([2, 9])
    assert session.size == 0
    assert attached(session).messages == [SessionIs(2, [], [], [], [], [])]


def test_names_are_told_in_parts(session: NamedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sessions, "_ROWS", 2)
    session.submits(submission("a", "b", "c"))
    parts = [message.names for message in attached(session).messages if isinstance(message, SessionIs)]
    assert parts == [["a", "b"], ["c"]]


@pytest.mark.parametrize(
    "second",
    [
        submission("b"),
        submission("a", first=2),
        submission("b", "b", first=2),
        submission("b", "c", first=2),
        Submit(0, 0, "", 0, False, [FIT], [2], [0], [b""], [], ["b", "c"]),
        Submit(3, 1, "", 0, False, [FIT], [2], [0], [b""], [], ["b"]),
    ],
    ids=["a number twice", "a name twice", "a name twice at once", "too many names", "uneven columns", "for a job"],
)
def test_what_no_program_would_say_ends_its_connection(
    second: Submit, session: NamedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sessions, "MOST_NAMES", 2 if second.names != ["b", "b"] else 3)
    session.submits(submission("a"))
    before = session.row(0.0)
    with pytest.raises(ProtocolError):
        session.submits(second)
    assert session.row(0.0) == before


def test_a_session_is_gone_when_nothing_is_left_of_it() -> None:
    sessions = Sessions()
    session = sessions.open("sweep", 7, 0.0)
    program: Any = Program()
    session.attach(program, lambda job: job / 2)
    session.submits(submission("a", ""))
    session.post(*outcomes({1: (b"", [])}))
    session.detach(Program())  # type: ignore[arg-type] # somebody who had it before
    assert session.connection is program
    session.detach(program)
    assert sessions.find("sweep") is session
    session.forget_all()
    assert list(sessions) == [session]
    session.post(*outcomes({2: (b"", [])}))
    assert (sessions.find("sweep"), list(sessions), bool(sessions)) == (None, [], False)
    assert sessions.open("sweep", 8, 0.0) is not session
