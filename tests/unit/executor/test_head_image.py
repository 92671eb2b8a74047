"""A head that is read from an image on a machine that was started again: its clocks begin anew."""

import time

import msgspec
import pytest

from grainlike.errors import JournalError
from grainlike.head._recorder import Recorder
from grainlike.head.durable._clients import DurableClients
from grainlike.head.durable._clock import PersistentClock
from grainlike.head.durable._head import DurableHead
from grainlike.head.durable._snapshot import began_here, draw_head, read_head, read_title
from grainlike.head.durable._store import HeadStore
from grainlike.head.server._accept import software
from grainlike.net import ClosedLink
from grainlike.resources import Cores, offer_of
from grainlike.wire import Hello


class Log:
    """Takes what is written."""

    failure = None

    def append(self, record):
        return 1


class Nobody:
    """Hears of no outcomes."""


class Meets:
    """Looks on, and hears who joins."""

    def __init__(self, met):
        self.met = met

    def joined(self, peer):
        self.met.append(peer.name)


def a_head(opened=0.0, clock=None):
    head = DurableHead(Nobody(), began_here(1, opened), clock or PersistentClock(), lambda at: None)
    head.keep(Log())
    return head, DurableClients(head, "c1", bool, bool, lambda: None)


def hello(role):
    return Hello(role, 1, 1, "3.11.7", {}, "n1", f"i-{role}", 1, "", [], received=0)


def test_moments_of_another_boot_are_no_moments_here():
    head, clients = a_head()
    worker = head.join(hello("worker"), offer_of(Cores([0]), own_cores=(0,)), "n1", ClosedLink("n1", "here"))
    client = clients.join(hello("client"), ClosedLink("c", "here"), None)
    far = time.monotonic() + 1e6
    worker.heard = client.heard = far
    title, *rest = draw_head(head, clients, began_here(1), far)

    before = time.monotonic()
    again, visitors = a_head()
    met = []
    again.observers.append(Meets(met))
    told = read_title(title)
    read_head(iter(rest), again, visitors)
    assert (told.began, told.now) == (began_here(1), far)
    assert met == ["n1"], "whoever looks on knows the workers that the image brought"
    assert [info.name for info in again.view.workers()] == ["n1"]
    assert 0 <= again.view.workers()[0].silent_s <= time.monotonic() - before
    assert before <= visitors.here[client.number].heard <= time.monotonic()


def test_the_count_of_jobs_and_its_time_go_on_together_in_the_next_head():
    head, clients = a_head(opened=40.0, clock=PersistentClock(lambda: 100.0))
    head.counters.succeeded, head.counters.run_seconds = 11, 38.1
    assert head.totals().total_seconds == 60.0
    _, *rest = draw_head(head, clients, began_here(1, 40.0), 107.0)
    clock = PersistentClock(lambda: 3.0)  # the machine was started again
    clock.has_been(107.0)
    again, visitors = a_head(opened=40.0, clock=clock)
    read_head(iter(rest), again, visitors)
    totals = again.totals()
    assert (totals.succeeded, totals.run_seconds, totals.total_seconds) == (11, 38.1, 67.0)
    recorder = Recorder(lambda job, attempt: None, bool, 10, again.now)
    recorder.counted(2)
    assert recorder.depths() == [(107.0, 2, 0), (107.0, 2, 0)], "on the clock on which attempts are told"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"python": "3.99.1"}, r"pickled with Python 3\.99\.1, .* go on with the former"),
        (
            {"serializers": {**software().serializers, "dill": "0.1.2"}},
            r"pickled with dill 0\.1\.2, .* go on with the former",
        ),
    ],
)
def test_a_journal_of_another_python_is_refused_for_its_functions_would_not_load(tmp_path, change, words):
    other = msgspec.structs.replace(software(), **change)
    directory = tmp_path / "journal"
    HeadStore(directory, msgspec.structs.replace(began_here(1), software=other)).close()
    with pytest.raises(JournalError, match=words):
        HeadStore(directory, began_here(1))


def test_what_is_cut_off_a_journal_is_told(tmp_path, caplog):
    directory = tmp_path / "journal"
    HeadStore(directory, began_here(1)).close()
    (log,) = directory.glob("*.log")
    with log.open("ab") as file:
        file.write(b"half a record")
    keeping = HeadStore(directory, began_here(2))
    keeping.close()
    assert keeping.began == began_here(1)
    assert caplog.messages == [f"the last 13 bytes of {log} were not a whole record, and are cut off"]
