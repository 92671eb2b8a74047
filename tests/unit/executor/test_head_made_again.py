"""A head is made again: it decides at the same moments, knows when workers end, and takes nobody who reads a log for a
reader before.
"""

from itertools import count

import anyio
import pytest
from msgspec.structs import astuple

from grainlike.errors import ProtocolError, StoreFullError
from grainlike.head.durable._clients import DurableClients
from grainlike.head.durable._clock import PersistentClock
from grainlike.head.durable._head import DurableHead
from grainlike.head.durable._snapshot import began_here, draw_head, read_head, read_title
from grainlike.net import ClosedLink
from grainlike.payload import dump_error
from grainlike.resources import Cores, offer_of
from grainlike.scheduler import HeadScheduler, OverdraftUnpaid, Ticked, WorkerHeard, WorkerLost, WorkerSuspected
from grainlike.wire import (
    PROTOCOL,
    AskHistory,
    Code,
    Completed,
    DropReplicas,
    Fetched,
    Follow,
    Frame,
    Hello,
    LeaseStart,
    Output,
    OutputStream,
    Report,
    RetrySpec,
    Submit,
    SubmittedFunction,
    TimeLeft,
    ValueComes,
    ValueInterest,
    ValuesGone,
    encode_frame,
)

pytestmark = pytest.mark.anyio


class Log:
    """Keeps what is written."""

    failure = None

    def __init__(self):
        self.records = []

    def append(self, record):
        self.records.append(b"".join(map(bytes, record)))
        return len(self.records)


class Nobody:
    """Hears of no outcomes."""

    def succeeded(self, node, value):
        raise AssertionError(f"{node} is nobody's here")


class Life:
    """A head from its beginning, or from what an earlier one left. Each look at its clock takes `look_s`."""

    def __init__(self, look_s=1.0):
        self.head = DurableHead(Nobody(), began_here(1), PersistentClock(count(0.0, look_s).__next__), lambda at: None)
        self.head.calendar = 0.0  # a journal says what it was
        self.clients = DurableClients(self.head, "c1", bool, bool, lambda: None)
        self.log = Log()

    def again(self, *, image):
        """The next head, of this one's records or, since it began, of an `image` of it."""
        later = Life()
        if image:
            title, *rest = draw_head(self.head, self.clients, began_here(1), self.head.now())
            read_head(iter(rest), later.head, later.clients)
            assert later.head.history.restore(read_title(title).history)
        else:
            assert later.head.replay(self.log.records, later.clients)
        later.head.keep(later.log)
        return later

    @property
    def worker(self):
        (peer,) = self.head.peers.values()
        return peer

    def hear(self, text, follower, *, caught_up=False):
        """The worker says this of job 1."""
        streams, data = ([OutputStream.STDOUT], [text]) if text else ([], [])
        self.head.hear(self.worker, [Frame(Output(1, 1, streams, data, follower, caught_up=caught_up))])


@pytest.fixture
def life():
    """A head with a worker, at which job 1 has been."""
    life = Life()
    life.head.keep(life.log)
    hello = Hello("worker", PROTOCOL, PROTOCOL, "3", {}, "n1", "i1", 1, "", [], received=0)
    life.head.join(hello, offer_of(Cores([0]), own_cores=(0,)), "n1", ClosedLink("n1", "here"))
    life.head.state.last_job = 1
    return life


async def read(life, found):
    """Read what job 1 wrote; the worker has been asked for it when all tasks are blocked."""
    found += [str(line) async for line in life.head.view.logs_of(1, follow=True)]


def last_said(peer):
    """What was said to it last."""
    pieces, _ = peer.session._transcript._kept[-1]
    return b"".join(map(bytes, pieces))


async def test_what_was_decided_at_one_moment_is_decided_at_that_again(life, monkeypatch):
    def noted(scheduler, event, now):
        seen.append((event, now))
        return handle(scheduler, event, now)

    handle, seen = HeadScheduler.handle, []
    monkeypatch.setattr(HeadScheduler, "handle", noted)
    life.head.suspect(life.worker, "it is silent", broke=False)
    life.head.heard(life.worker)
    life.head.tick()
    life.head.leave(life.worker, "it was silent for too long")
    before, seen = seen, []
    assert [type(event) for event, _ in before] == [WorkerSuspected, WorkerHeard, Ticked, WorkerLost]
    later = Life(look_s=2.0)
    assert later.head.replay(life.log.records, later.clients)
    assert seen[-len(before) :] == before


def said(connection):
    """All that was said to it and not acknowledged."""
    return [b"".join(map(bytes, pieces)) for pieces, _ in connection.session._transcript._kept]


def packed(message):
    return b"".join(map(bytes, encode_frame(message)))


@pytest.mark.parametrize("image", [False, True], ids=["records", "image"])
async def test_values_of_a_client_are_its_own_again(life, image):
    """A value is on its way when the head dies; the next has it sent, knows the owner, and lets it go at the end."""
    life.head.state.last_job = 0
    hello = Hello("client", PROTOCOL, PROTOCOL, "3", {}, "c", "i2", 1, "", [], received=0)
    client = life.clients.join(hello, ClosedLink("c", "here"), None)
    stranger = life.clients.join(Hello(*astuple(hello)), ClosedLink("d", "here"), None)
    function = SubmittedFunction(b"digest", "f", False, None, RetrySpec(), False, False, True, stays=True)
    submitted = Submit(0, 0, "cores=1", 0, False, [function], [1], [0], [b"a"], [])
    life.clients.hear(client, [Frame(submitted, [b"code"])])
    (job,) = life.head.state.scheduler.jobs.values()
    lease = LeaseStart(1, job.shape.id, "cores=[0]", [job.id], [1], 1.0)
    ended = Completed(1, [job.id], [1], [0], [1.0], [0.1], [0.1], [1], [b""], [], 1.0, sizes=[100_000])
    life.head.hear(life.worker, [Frame(Report(1.0, [lease], [ended], [1], []))])
    life.clients.hear(client, [Frame(ValueInterest([job.id], [], []))])
    life.clients.hear(stranger, [Frame(ValueInterest([job.id], [], [job.id]))])
    assert said(stranger)[-1] == packed(ValuesGone([job.id], ["the head knows no such value of this program"]))
    later = life.again(image=image)
    again = later.clients.here[client.number]
    assert (said(again), said(later.clients.here[stranger.number])) == (said(client), said(stranger))
    (transfer,) = later.head.state.transfers.values()
    assert said(again)[-1] == packed(ValueComes(transfer.number, job.id, 1, 100_000))
    assert transfer.client is again
    later.head.values.returned(later.worker)
    later.head.values.returned(again)
    assert transfer.granted == 100_000
    with pytest.raises(ProtocolError, match="another's"):
        later.clients.hear(later.clients.here[stranger.number], [Frame(Fetched(transfer.number, job.id, 1))])
    later.clients.hear(again, [Frame(Fetched(transfer.number, job.id, 1))])
    assert not later.head.state.transfers
    assert not later.head.state.owners.wanted
    later.clients.leave(again)
    assert last_said(later.worker) == packed(DropReplicas([job.id], [1]))
    assert not later.head.state.scheduler.replicas_of(job.id)
    assert len(later.head.state.kept) == 0


@pytest.mark.parametrize("image", [False, True], ids=["records", "image"])
async def test_the_time_that_a_worker_has_left_is_known_again(life, image):
    """By the head, on its clock, and by the worker, to which it is said again over its next link."""
    before = life.head.now()
    life.head.tell_time_left(life.worker.number, 600.0, 30.0)
    until = life.head.state.scheduler.workers[life.worker.number].until
    assert before + 600.0 <= until <= life.head.now() + 600.0
    later = life.again(image=image)
    assert later.head.state.scheduler.workers[later.worker.number].until == until
    assert last_said(later.worker) == b"".join(map(bytes, encode_frame(TimeLeft(600.0, 30.0))))


@pytest.mark.parametrize("image", [False, True], ids=["records", "image"])
async def test_what_was_said_to_a_reader_of_the_head_before_is_not_taken_for_ours(life, image):
    found = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read, life, [])
        await anyio.wait_all_tasks_blocked()
        later = life.again(image=image)
        later.head.state.last_job = 1
        tasks.cancel_scope.cancel()
    assert later.worker.follows == {}
    assert last_said(later.worker) == b"".join(map(bytes, encode_frame(Follow(1, 1, False))))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read, later, found)
        await anyio.wait_all_tasks_blocked()
        ((_, number),) = later.worker.follows
        later.hear(b"", 1, caught_up=True)  # the rest of an answer of which the head before has had the beginning
        await anyio.wait_all_tasks_blocked()
        later.hear(b"one\n", number)
        later.hear(b"", number, caught_up=True)
    assert found == ["one"]


async def test_a_reader_that_left_before_the_death_is_not_told_again_that_it_did(life):
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read, life, [])
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    later = life.again(image=False)
    assert later.worker.follows == {}
    assert later.log.records == []
    assert later.head.state.next_listener() == 2


# --- a job whose value found no room ---------------------------------------------------------------------------------


class Rerun:
    """A client's job at two workers with small stores, whose value finds no room at the first: what the head hears, one
    thing after another, and what it knows.
    """

    def __init__(self):
        self.life = Life()
        self.life.head.keep(self.life.log)
        for name in ("n1", "n2"):
            hello = Hello("worker", PROTOCOL, PROTOCOL, "3", {}, name, name, 1, "", [], received=0, replicas=f"/{name}",
                          store=1_000_000, scratch=0)  # fmt: skip
            self.life.head.join(hello, offer_of(Cores([0]), own_cores=(0,)), name, ClosedLink(name, "here"))
        hello = Hello("client", PROTOCOL, PROTOCOL, "3", {}, "c", "c", 1, "", [], received=0)
        self.number = self.life.clients.join(hello, ClosedLink("c", "here"), None).number

    @property
    def client(self):
        return self.life.clients.here[self.number]

    def submit(self):
        function = SubmittedFunction(b"digest", "f", False, None, RetrySpec(), False, False, True, stays=True)
        submitted = Submit(0, 0, "cores=1", 0, False, [function], [1], [0], [b"a"], [])
        self.life.clients.hear(self.client, [Frame(submitted, [b"code"])])

    def report(self, *, begins=False, code=None, sizes=(), wanted=0, data=b""):
        """The worker that has the job says that it began, or that it ended."""
        head = self.life.head
        (job,) = head.state.scheduler.jobs.values()
        lease = LeaseStart(1, job.shape.id, "cores=[0]", [job.id], [job.attempt], 1.0)
        columns = [job.id], [job.attempt], [code], [1.0], [0.1], [0.1], [1], [data], []
        ended = Completed(1, *columns, 1.0, sizes=list(sizes), wanted={job.id: wanted} if wanted else {})
        starts, ends = ([lease], []) if begins else ([], [ended])
        head.hear(head.peers[job.worker], [Frame(Report(1.0, starts, ends, [] if begins else [1], []))])

    def finds_no_room(self):
        full = bytes(dump_error(StoreFullError("there is no room for 800,000 bytes"))[0])
        self.report(code=int(Code.FAILED), wanted=800_000, data=full)

    def knows(self):
        """All that the head knows of the job, and all that it has said."""
        head = self.life.head
        jobs = head.state.scheduler.jobs.values()
        tries = [(job.id, job.attempt, job.worker, job.state, job.losses, job.failures, tried(job)) for job in jobs]
        explained = [str(head.view.explain_job(job.id)) for job in jobs]
        page = head.history.page(AskHistory(0, 1, job=1))
        values = {number: (value.attempt, value.replicas) for number, value in table(head).items()}
        gives = [fn.gives for fn in head.state.scheduler._functions.values()]
        told = [said(peer) for peer in (*head.peers.values(), self.client)]
        return tries, explained, page.jobs, page.earlier, values, gives, told


def tried(job):
    return None if job.tried is None else (job.tried.size, job.tried.workers)


def table(head):
    return head.state.scheduler._state.values.values


@pytest.mark.parametrize("image", [False, True], ids=["records", "image"])
@pytest.mark.parametrize("dies_after", range(5))
@pytest.mark.parametrize("has_room", [True, False], ids=["there", "nowhere"])
async def test_a_job_that_runs_elsewhere_as_its_value_found_no_room_is_as_it_was(dies_after, image, has_room):
    """Whenever the head dies: the next one knows at which worker there was none, and lets nobody run the job again."""
    rerun = Rerun()
    steps = [
        rerun.submit,
        lambda: rerun.report(begins=True),
        rerun.finds_no_room,
        lambda: rerun.report(begins=True),
        lambda: rerun.report(code=0, sizes=[800_000]) if has_room else rerun.finds_no_room(),
    ]
    for done, step in enumerate(steps):
        step()
        if done == dies_after:
            before = rerun.knows()
            rerun.life = rerun.life.again(image=image)
            assert rerun.knows() == before
    _, _, (job,), _, values, gives, (first, second, _) = rerun.knows()
    assert (job.attempts, [attempt.worker for attempt in job.earlier]) == (2, ["n1"])
    assert gives == [800_000]
    if has_room:
        assert (job.outcome, job.worker, values) == ("succeeded", "n2", {1: (2, (2,))})
    else:
        assert (job.outcome, values) == ("failed", {})
        assert "its value of 800 KB found no room at n1 (store 1 MB) and n2 (store 1 MB)" in job.error
    assert [sum(b"digest" in one for one in told) for told in (first, second)] == [1, 1], "sent to each worker once"


async def test_a_job_that_is_given_up_for_an_overdraft_ends_with_the_reason():
    rerun = Rerun()
    rerun.submit()
    head = rerun.life.head
    (job,) = head.state.scheduler.jobs
    head.state.scheduler._state.drop(head.state.scheduler.jobs[job])
    head._acting.act(OverdraftUnpaid([job], "n1 keeps 10 MB more than it has room for"))
    _, _, (ended,), *_ = rerun.knows()
    assert ended.outcome == "failed"
    assert "StoreFullError: there is no room for the inputs of f" in ended.error
    assert ended.error.endswith("n1 keeps 10 MB more than it has room for")
