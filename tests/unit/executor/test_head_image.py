"""A head that is read from an image on a machine that was started again: its clocks begin anew."""

import time

import msgspec
import pytest

from grainlike.errors import JournalError
from grainlike.executor._door import software
from grainlike.executor._durable_guests import DurableGuests
from grainlike.executor._durable_head import DurableHead
from grainlike.executor._head_image import began_here, draw_head, read_head, read_title
from grainlike.executor._keeping import Keeping
from grainlike.executor._lasting_clock import LastingClock
from grainlike.net import LostLink
from grainlike.resources import Cores, offer_of
from grainlike.wire import Hello


class Log:
    """Takes what is written."""

    failure = None

    def append(self, record):
        return 1


class Nobody:
    """Hears of no outcomes."""


def a_head():
    head = DurableHead(Nobody(), began_here(1), LastingClock(), lambda at: None)
    head.keep(Log())
    return head, DurableGuests(head, "c1", bool, bool, lambda: None)


def hello(role):
    return Hello(role, 1, 1, "3.11.7", {}, "n1", f"i-{role}", 1, "", [], received=0)


def test_moments_of_another_boot_are_no_moments_here():
    head, guests = a_head()
    worker = head.join(hello("worker"), offer_of(Cores([0]), own_cores=(0,)), "n1", LostLink("n1", "here"))
    client = guests.join(hello("client"), LostLink("c", "here"), None)
    far = time.monotonic() + 1e6
    worker.heard = client.heard = head.tally.opened = far
    title, *rest = draw_head(head, guests, began_here(1), far)

    again, visitors = a_head()
    began, now = read_title(title)
    read_head(iter(rest), again, visitors)
    assert (began, now) == (began_here(1), far)
    assert [info.name for info in again.view.workers()] == ["n1"]
    assert 0 <= again.view.workers()[0].silent_s < 60
    assert 0 <= time.monotonic() - visitors.here[client.number].heard < 60
    assert 0 <= again.tally.totals().total_seconds < 60


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
    Keeping(directory, msgspec.structs.replace(began_here(1), software=other)).close()
    with pytest.raises(JournalError, match=words):
        Keeping(directory, began_here(1))


def test_what_is_cut_off_a_journal_is_told(tmp_path, caplog):
    directory = tmp_path / "journal"
    Keeping(directory, began_here(1)).close()
    (log,) = directory.glob("*.log")
    with log.open("ab") as file:
        file.write(b"half a record")
    keeping = Keeping(directory, began_here(2))
    keeping.close()
    assert keeping.began == began_here(1)
    assert caplog.messages == [f"the last 13 bytes of {log} were not a whole record, and are cut off"]
