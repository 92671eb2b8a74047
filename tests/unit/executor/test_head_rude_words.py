"""What a head was told out of range does not get into the next one: it was refused, or fails there in the same way.

Workers and clients have proved themselves, and say well-formed messages with any values in any field. `Life` is a head
with a log in memory; the next head is made of its records, and is the same.
"""

import dataclasses
import enum
import gc
import os
import random
import typing

import msgspec
import pytest

from grainlike.errors import GrainlikeError, ProtocolError
from grainlike.head.durable._clients import DurableClients
from grainlike.head.durable._clock import PersistentClock
from grainlike.head.durable._head import DurableHead
from grainlike.head.durable._records import WorkerCame, WorkerSaid, pack_input
from grainlike.head.durable._schema import records
from grainlike.head.durable._snapshot import began_here, draw_head
from grainlike.journal._objects import _rows
from grainlike.net import ClosedLink
from grainlike.resources import Cores, offer_of, parse_allocation
from grainlike.wire import (
    FROM_WORKER,
    Completed,
    DurableCopy,
    EndSessions,
    Fetched,
    Forget,
    Frame,
    FrameDecoder,
    Hello,
    ImportsFrom,
    Items,
    LeaseStart,
    LeaseWait,
    Leaving,
    OutcomesHeard,
    Output,
    ReplicaCredit,
    ReplicaPart,
    Report,
    ResendBuffer,
    RetrySpec,
    Submit,
    SubmittedFunction,
    Unsent,
    ValueInterest,
    Withdraw,
    encode_frame,
)
from grainlike.wire._messages import AnyMessage

SEED = int(os.environ.get("GRAINLIKE_TEST_SEED", "1"))
COUNT = int(os.environ.get("GRAINLIKE_TEST_FUZZ", "1500")) // 40
"""How many lives."""

STEPS = 25
"""How many words in each."""

CODE = b"code"
OFFERS = ["cores=[0,1]", "cores=[0] memory=8Gi", "cores=[] licence=0", "cores=[5,7] gpus=[1]", "cores=[0", "cores=[-1]"]


class Log:
    """Keeps what is written."""

    failure = None

    def __init__(self):
        self.records = []

    def append(self, record):
        self.records.append(b"".join(map(bytes, record)))
        return len(self.records)


class Nobody:
    """Hears of no outcomes: a head daemon has no graph."""

    def succeeded(self, node, value):
        raise AssertionError(f"{node} is nobody's here")

    def failed(self, node, error):
        raise AssertionError(f"{node} is nobody's here")


class Life:
    """A head with its clients, whose clock goes by a second from input to input."""

    def __init__(self):
        self.now = 0.0
        self.head = DurableHead(Nobody(), began_here(1), PersistentClock(self._clock), lambda at: None)
        self.clients = DurableClients(self.head, "c1", bool, bool, lambda: None)
        self.log = Log()

    def _clock(self):
        self.now += 1.0
        return self.now

    def again(self):
        """The next head, of this one's records."""
        later = Life()
        assert later.head.replay(self.log.records, later.clients)
        return later

    def connection(self, number):
        return self.head.peers.get(number) or self.clients.here.get(number)

    def told(self):
        """What each party was told, from the first message of which it has not said that it has it."""
        parties = [*self.head.peers.values(), *self.clients.here.values()]
        logs = {
            connection.number: connection.session._transcript
            for connection in parties
            if connection.session is not None
        }
        return {
            number: (log.sent_in_all, [b"".join(map(bytes, pieces)) for pieces, _ in log._kept])
            for number, log in logs.items()
        }

    def state(self):
        """All else that an image would have, but what is of this process alone."""
        for log in gc.get_objects():
            if type(log) is ResendBuffer:  # by the type alone: `isinstance` asks the objects, of other tests too
                log._kept.clear()
        _, *chunks = draw_head(self.head, self.clients, began_here(1), 0.0)
        return list(comparable(_rows(chunks)))


PASSING = {
    "ResendBuffer": {"_acknowledged", "received", "_told", "_unsaid", "_allowed", "size"},
    "ResumableSession": {"over"},
    "WorkerConnection": {"beats"},
    "Placement": {"last_words", "blocks_since"},
    "Allocation": {"_text"},
    "LinkTransfer": {"begun", "generation", "granted", "paused", "received", "waits", "written"},
}
"""Effects of heartbeats, output, acknowledgements and bytes of values, which are not written down; and what is
remembered for speed.
"""


def comparable(rows):
    """The rows of an image without what may differ."""
    made = []
    for kind, *rest in rows:
        name = rest[0] if kind in ("o", "v") else made[rest[0]] if kind == "F" else None
        if kind not in ("F", "c"):
            made.append(name)
        if name is not None and (kind != "o"):
            fields = records()[name].names
            passing = PASSING.get(name, ())
            own, pairs = rest[1 : 1 + len(fields)], rest[1 + len(fields) :]
            named = [*zip(fields, own, strict=False), *zip(pairs[::2], pairs[1::2], strict=False)]
            rest = [rest[0], *((field, value) for field, value in named if field not in passing)]
        yield repr((kind, rest))


def assert_same(life, again):
    """Acknowledgements are not written down, so the one that was made again may keep more of what it said."""
    told, retold = life.told(), again.told()
    assert {number: sent for number, (sent, _) in told.items()} == {
        number: sent for number, (sent, _) in retold.items()
    }
    for number, (_, kept) in told.items():
        assert retold[number][1][len(retold[number][1]) - len(kept) :] == kept
    for now, then in zip(life.state(), again.state(), strict=True):
        assert now == then


# --- any values ------------------------------------------------------------------------------------------------------

INTS = [0, 1, 1, 1, 2, 2, 3, 4, 9, -1, -7, 2**31, 2**63 - 1, -(2**62)]
FLOATS = [0.0, 0.001, 1.0, -1.0, 1e9, 1e308, -1e308, float("nan"), float("inf"), float("-inf")]
TEXTS = [
    "",
    "x",
    "n1",
    "s1",
    "cores=1",
    "cores=[0]",
    "cores=[9]",
    "nodes=2(cores=1)",
    "memory=" + "9" * 5000,
    "\u00fc\x00",
]
BYTES = [b"", CODE, b"digest", b"x" * 40_000]


def anything(dice, kind):
    """A value of this type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    match kind:
        case _ if kind is int:
            return dice.choice(INTS)
        case _ if kind is float:
            return dice.choice(FLOATS)
        case _ if kind is str:
            return dice.choice(TEXTS)
        case _ if kind is bytes:
            return dice.choice(BYTES)
        case _ if kind is bool:
            return dice.random() < 0.5
        case _ if kind is type(None):
            return None
        case _ if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return dice.choice(list(kind))
        case _ if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return kind(**{field.name: anything(dice, field.type) for field in msgspec.structs.fields(kind)})
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{field.name: anything(dice, hints[field.name]) for field in dataclasses.fields(kind)})
    if origin is typing.Literal:
        return dice.choice(arguments)
    if origin is typing.Annotated:
        return anything(dice, arguments[0])
    if origin is list:
        return [anything(dice, arguments[0]) for _ in range(dice.choice([0, 1, 1, 1, 2, 3]))]
    if origin is dict:
        return {anything(dice, arguments[0]): anything(dice, arguments[1]) for _ in range(dice.choice([0, 1, 2]))}
    if origin is tuple:
        return tuple(anything(dice, argument) for argument in arguments if argument is not Ellipsis)
    return anything(dice, dice.choice(arguments))  # a union


def changed(dice, thing):
    """The same, but for one value somewhere in it."""
    field = dice.choice(msgspec.structs.fields(thing))
    value = getattr(thing, field.name)
    if isinstance(value, list) and value and dice.random() < 0.7:
        at, value = dice.randrange(len(value)), list(value)
        old = value[at]
        value[at] = (
            changed(dice, old) if isinstance(old, msgspec.Struct) else anything(dice, typing.get_args(field.type)[0])
        )
        if dice.random() < 0.2:
            value = dice.choice([value[:-1], value + value[:1]])
    else:
        value = anything(dice, field.type)
    return msgspec.structs.replace(thing, **{field.name: value})


def well_formed(message, buffers, limits=FROM_WORKER):
    """The message as it comes from the network; None where nobody could say it."""
    try:
        decoder = FrameDecoder(limits)
        (frame,) = decoder.feed(b"".join(map(bytes, encode_frame(message, buffers))))
    except ProtocolError:
        return None
    return frame


# --- honest words ----------------------------------------------------------------------------------------------------

FUNCTION = SubmittedFunction(b"digest", "f", False, None, RetrySpec(times=1), False, False, True)


def nested(dice, parent=0, attempt=0, *, graphs=False):
    request = dice.choice(["cores=1", "cores=2", "cores=1", "nodes=2(cores=1)", ""])
    children = [dice.randrange(50), dice.randrange(50, 99)]
    names = [dice.choice(["", "r"]), "s"] if parent == 0 else []
    function = FUNCTION if parent else msgspec.structs.replace(FUNCTION, stays=dice.random() < 0.8)
    message = Submit(parent, attempt, request, 0, False, [function], children, [0, 0], [b"a", b""], [0, 1], names)
    if parent == 0 and dice.random() < 0.5:
        message = msgspec.structs.replace(message, inputs=[dice.choices(range(1, 9), k=dice.randrange(3)), []])
    if graphs and dice.random() < 0.7:
        known = [*range(children[0]), *children[:1] * 5]
        needs = [[], dice.choices(known, k=dice.randrange(3)) if known else []]
        message = msgspec.structs.replace(message, needs=needs, goes_on=dice.random() < 0.5)
    return message, [CODE, b"large"]


def about_values(dice, life):
    """Messages of a client on values that stay, its own for the most part, and on transfers to it."""
    known = [*life.head.state.owners._owners, 1]
    under_way = [*life.head.state.transfers, 1]
    value, transfer = dice.choice(known), dice.choice(under_way)
    return dice.choice(
        [
            ValueInterest([value], [], []),
            ValueInterest(known, [], []),
            ValueInterest([], [value], []),
            ValueInterest([value], [], [dice.choice(known)]),
            DurableCopy(value, dice.choice(known)),
            Fetched(transfer, value, 1),
            Unsent(transfer, "there is no such file", gone=dice.random() < 0.5),
            ReplicaCredit(transfer, 1),
        ]
    )


def report(dice, life, peer):
    """What a worker says of a job that it has: it begins, and perhaps ends."""
    held = list(life.head.state.scheduler.workers[peer.number].held.values())
    if not held:
        return Report(1.0, [], [], []), []
    job = dice.choice(held)
    lease = dice.randrange(1, 6)
    numbers = [job.id], [job.attempt]
    shape = 1 if job.shape is None else job.shape.id
    started = [LeaseStart(lease, shape, "cores=[0]", *numbers, 1.0)] if dice.random() < 0.7 else []
    code = dice.choice([0, 0, 1, 2, 4, 5])
    ended = Completed(lease, *numbers, [code], [1.0], [0.1], [0.1], [1], [b""], [1], 1.0)
    waits = [LeaseWait(lease, job.id, job.attempt, dice.randrange(3), 0, True, "cores=[0]")]
    size = dice.choice([0, 0, 100_000]) if code == 0 else 0
    if size:
        ended = msgspec.structs.replace(ended, sizes=[size], counts=[0])
    completed = [ended] if dice.random() < 0.6 else []
    words = Report(1.0, started, completed, [lease] if completed else [], waits if dice.random() < 0.3 else [])
    return words, [b"value"] * len(completed) * (not size)


def honest(dice, life, peer):
    """Something that a worker, or a client, would say."""
    if peer.hello.role == "client":
        child = [dice.randrange(50)]
        told = (
            Withdraw(0, 0, child),
            Forget(["r"]),
            EndSessions(["s1"]),
            ImportsFrom(["/x"]),
            OutcomesHeard([*child, 50]),
        )
        kinds = [nested(dice, graphs=bool(peer.hello.session)), (about_values(dice, life), ())] * 3
        kinds += [(message, ()) for message in told]
        return dice.choice(kinds)
    jobs = list(life.head.state.scheduler.jobs) or [1]
    words = [report(dice, life, peer)] * 6 + [
        nested(dice, dice.choice(jobs), 1),
        (Withdraw(dice.choice(jobs), 1, [1, 2]), ()),
        (Items(dice.choice(jobs), 1, [b"a"], []), ()),
        (Output(dice.choice(jobs), 1, [0], [b"text"], last_words=True), ()),
        (Leaving("walltime"), ()),
    ]
    return dice.choice(words)


def a_word(dice, life, peer):
    """One frame of a party: honest, changed in some places, or anything at all."""
    while True:
        message, buffers = honest(dice, life, peer)
        chance = dice.random()
        if chance > 0.9:
            message = anything(dice, dice.choice(MESSAGES))
        elif chance > 0.4:
            for _ in range(dice.choice([1, 1, 2, 5])):
                message = changed(dice, message)
            buffers = list(buffers)[: dice.choice([None, None, 0, 1])]
        frame = well_formed(message, buffers)
        if frame is not None:
            return frame


MESSAGES = list(typing.get_args(AnyMessage))


def a_hello(dice, role, number):
    hello = Hello(role, 1, 1, "3.11", {}, f"n{number}", f"i{number}", 1, "", [], received=0)
    if role == "client" and dice.random() < 0.4:
        hello = msgspec.structs.replace(hello, session="s1")
    if dice.random() < 0.5:
        hello = msgspec.structs.replace(hello, memory="m1", replicas="/dev/shm/grainlike-store-1")
    if dice.random() < 0.3:
        fields = {"received": int, "logical": list[int], "memory": str, "memory_tier": str, "process": str, "pid": int}
        name = dice.choice(list(fields))
        hello = msgspec.structs.replace(hello, **{name: anything(dice, fields[name])})
    return hello


def comes(dice, life, number):
    """Somebody dials in, and is let in or refused: nothing else."""
    role = dice.choice(["worker", "worker", "client"])
    hello = a_hello(dice, role, number)
    link = ClosedLink(hello.name, "here")
    try:
        if role == "client":
            life.clients.check_session(hello)
            life.clients.join(hello, link, None)
        else:
            offer = parse_allocation(dice.choice(OFFERS))
            life.head.join(hello, offer, life.head.free_name(hello.name), link)
    except GrainlikeError:
        pass


def says(dice, life, connection):
    """It says something, and if it is not heard out it is given up, as the door does."""
    room = life.head if connection.number in life.head.peers else life.clients
    try:
        room.hear(connection, [a_word(dice, life, connection) for _ in range(dice.choice([1, 1, 2]))])
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not be raised here
        room.leave(connection, repr(error)) if room is life.head else room.leave(connection)
        return error
    return None


def live(dice):
    """One life of a head among rude people; and what was raised in it, that is no refusal."""
    life = Life()
    life.head.keep(life.log)
    surprises = []
    for number in range(STEPS):
        parties = [*life.head.peers.values(), *life.clients.here.values()]
        chance = dice.random()
        if number < 3 or not parties or chance < 0.1:
            comes(dice, life, number)
        elif chance < 0.15:
            life.head.tick()
        elif chance < 0.2:
            life.head.suspect(
                dice.choice(list(life.head.peers.values()) or [None]), "silent", broke=True
            ) if life.head.peers else None
        elif chance < 0.21:
            life.head.hold_starts(dice.choice(["", "the disk refuses"]))
        elif chance < 0.22:
            for worker in list(life.head.peers):
                life.head.tell_time_left(worker, dice.choice([0.0, 60.0, 3600.0]), 5.0)
        elif chance < 0.24:
            life.head.cancel_nested(dice.choice(list(life.head.state.jobs) or [1]))
        else:
            error = says(dice, life, dice.choice(parties))
            if error is not None and not isinstance(error, GrainlikeError):
                surprises.append(error)
    return life, surprises


@pytest.fixture(autouse=True)
def one_moment(monkeypatch):
    """What is of this process's clock alone is the same for both heads."""
    monkeypatch.setattr("time.monotonic", lambda: 7.0)


@pytest.mark.parametrize("part", range(4))
def test_whatever_was_said_the_next_head_is_the_same(part):
    for number in range(part, COUNT, 4):
        life, surprises = live(random.Random(f"{SEED} {number}"))
        assert not surprises, f"life {number} of seed {SEED}"
        again = life.again()
        assert_same(life, again)


def test_a_worker_that_cannot_dial_anew_is_refused_by_a_head_with_a_journal():
    life = Life()
    life.head.keep(life.log)
    hello = Hello("worker", 1, 1, "3.11", {}, "n1", "i1", 1, "", [], received=-1)
    with pytest.raises(ProtocolError, match=r"cannot connect again \(received=-1\)"):
        life.head.join(hello, offer_of(Cores([0]), own_cores=(0,)), "n1", ClosedLink("n1", "here"))
    assert not life.head.peers
    assert not life.log.records


def test_what_came_behind_a_word_that_is_not_written_down_counts_though_that_fails():
    life = Life()
    life.head.keep(life.log)
    hello = Hello("worker", 1, 1, "3.11", {}, "n1", "i1", 1, "", [], received=0)
    peer = life.head.join(hello, offer_of(Cores([0]), own_cores=(0,)), "n1", ClosedLink("n1", "here"))
    bytes_of_nothing = Frame(ReplicaPart(77, 1, 1, 0, 9), (b"123456789",))
    with pytest.raises(ProtocolError, match="there was no transfer 77"):
        life.head.hear(peer, [bytes_of_nothing, Frame(Leaving("its time is over")), bytes_of_nothing])
    assert peer.leaving
    assert_same(life, life.again())


def test_an_input_that_fails_is_as_harmless_in_the_next_head(caplog):
    life = Life()
    life.head.keep(life.log)
    hello = Hello("worker", 1, 1, "3.11", {}, "n1", "i1", 1, "", [], received=0)
    peer = life.head.join(hello, offer_of(Cores([0]), own_cores=(0,)), "n1", ClosedLink("n1", "here"))
    poison = Report(1.0, [LeaseStart(1, 77, "cores=[0]", [1], [1], 1.0)], [], [])  # as an earlier release wrote it down
    life.log.append(pack_input(WorkerSaid(2.0, peer.number, 1, 0), [Frame(poison)]))
    left_out = msgspec.structs.replace(hello, received=-1, name="n2")
    life.log.append(pack_input(WorkerCame(3.0, 2, "n2", "here", left_out, "cores=[0]")))
    life.head.leave(peer, "it said what cannot be")
    again = life.again()
    assert not again.head.peers
    (message,) = caplog.messages
    assert message.startswith(
        "2 inputs in the journal fail, as they did when they came; the first: WorkerSaid of 2.000: "
    )
