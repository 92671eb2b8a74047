"""Write the journal of this release's schema to `schema-N` beside this file: an image, and a log behind it.

Run it once when `SCHEMA` is raised, and never again for a schema that was released::

    python tests/data/journals/make.py

`tests/unit/executor/test_head_golden.py` restores all of them, for ever.
"""

import json
from itertools import count
from pathlib import Path

from grainlike.head.durable._clients import DurableClients
from grainlike.head.durable._clock import PersistentClock
from grainlike.head.durable._head import DurableHead
from grainlike.head.durable._schema import SCHEMA
from grainlike.head.durable._snapshot import began_here, draw_head
from grainlike.head.durable._store import HeadStore
from grainlike.journal import commit_image
from grainlike.net import ClosedLink
from grainlike.resources import Cores, offer_of
from grainlike.wire import Completed, Frame, Hello, LeaseStart, Report, RetrySpec, Submit, SubmittedFunction

HERE = Path(__file__).parent
CODE = b"the code of a function"


class Nobody:
    """Hears of no outcomes: a head daemon has no graph."""

    succeeded = failed = None


def a_head(store):
    """A head on this store's clock, with its clients."""
    head = DurableHead(Nobody(), store.began, store.clock, lambda at: None)
    return head, DurableClients(head, "c1", bool, bool, bool)


def hello(role, name, session=""):
    """Return what a worker or a client says first."""
    return Hello(role, 1, 1, "3.11.7", {}, name, f"i-{name}", 1, "", [], received=0, session=session)


def submit(first, amount, *, here, name="", ages=(), needs=()):
    """Return a submission of `amount` jobs of one core; those of a session's are kept under names, and may need each
    other.
    """
    retry = RetrySpec(1)
    function = SubmittedFunction(b"d" * 16, "work", False, 60.0, retry, False, False, here)
    children = list(range(first, first + amount))
    names = [f"{name}{number}" for number in children] if name else []
    request = "cores=1"
    columns = ([0] * amount, [b"x"] * amount, [0] * amount)
    return Frame(
        Submit(0, 0, request, 0, False, [function], children, *columns, names, list(ages), needs=list(needs)),
        [CODE] if here else [],
    )


def report(number, *jobs, ends=True):
    """Return that these jobs ran on core 0 in one lease, one after another, and gave values."""
    amount = len(jobs)
    lease = LeaseStart(number, 1, "cores=[0]", list(jobs), [1] * amount, float(number))
    times = ([1.0] * amount, [0.25] * amount, [0.125] * amount, [1024] * amount)
    done = Completed(number, list(jobs), [1] * amount, [0] * amount, *times, [b"value"] * amount, [0] * amount, 1.0)
    return Frame(Report(1.0, [lease], [done] if ends else [], [number] if ends else []))


def write(directory):
    """Write the journal; return its head and clients."""
    store = HeadStore(directory, began_here(1))
    store.clock = PersistentClock(count(0.0, 0.5).__next__)
    head, clients = a_head(store)
    store.restore(head, clients)
    worker = head.join(hello("worker", "n1"), offer_of(Cores([0, 1]), own_cores=(0, 1)), "n1", ClosedLink("n1", "here"))
    client = clients.join(hello("client", "c"), ClosedLink("c", "here"), None)
    nightly = clients.join(hello("client", "s", "nightly"), ClosedLink("s", "here"), None)
    clients.hear(client, [submit(1, 6, here=True)])
    clients.hear(nightly, [submit(1, 3, here=True, name="part-")])
    clients.hear(client, [submit(20, 1, here=False, ages=[1])])
    clients.hear(nightly, [submit(10, 3, here=False, name="graph-", needs=[[], [10], [10, 11]])])
    head.hear(worker, [report(1, 1), report(3, 7)])
    segment = store._journal.begin_segment()
    commit_image(directory, segment, draw_head(head, clients, store.began, store.clock()))
    store._journal.forget_before(segment)
    clients.hear(client, [submit(7, 2, here=False)])
    head.hear(worker, [report(2, 2)])
    head.suspect(worker, "it is silent", broke=False)
    head.heard(worker)
    head.tick()
    store.close()
    return head, clients


def state_of(head, clients):
    """Return what people and peers would notice of a head, as JSON has it."""
    jobs = head.state.scheduler.jobs
    sessions = {session.name: session for session in clients.sessions}
    told = {
        connection.number: connection.session._transcript.sent_in_all
        for connection in [*head.peers.values(), *clients.here.values()]
        if connection.session is not None
    }
    return {
        "workers": [[peer.number, peer.name, str(peer.offer), peer.suspect] for peer in head.peers.values()],
        "clients": [[each.number, each.name] for each in clients.here.values()],
        "jobs": {str(number): job.state.name for number, job in sorted(jobs.items())},
        "rows": [[row.job, row.name, row.request] for row in head.view.rows(None)],
        "sessions": {name: sorted(session._calls) for name, session in sessions.items()},
        "succeeded": head.counters.succeeded,
        "run_seconds": head.counters.run_seconds,
        "functions": head.state.functions.count,
        "told": {str(number): sent for number, sent in sorted(told.items())},
        "last": [head.state.last_job, head.state.last_peer],
    }


if __name__ == "__main__":
    directory = HERE / f"schema-{SCHEMA}"
    state = state_of(*write(directory))
    for rest in directory.iterdir():
        if rest.suffix not in (".log", ".image"):
            rest.unlink()
    (HERE / f"schema-{SCHEMA}.json").write_text(json.dumps(state, indent=1) + "\n")
