"""How long a worker looks for its head: before it has ever been let in, and when it has to begin anew."""

from functools import partial

import anyio
import pytest
from limits import LIMIT_S

from grainlike import Cores
from grainlike.errors import HeadLostError
from grainlike.net import Access, HeadLocator, listen, parse_address
from grainlike.wire import Welcome
from grainlike_worker.__main__ import _serve_heads

pytestmark = pytest.mark.anyio


class Cluster:
    """A real listener, `absent` for so many looks from the second on, and what befalls each incarnation of a worker."""

    def __init__(self, *befalls, absent=0):
        self.befalls, self.absent = list(befalls), absent
        self.looks = 0
        self.idle = []
        """Reports of being idle, in order: True where there was no job."""

    def look(self, *, idle):
        self.idle.append(idle)

    def find(self):
        self.looks += 1
        if 1 < self.looks <= 1 + self.absent:
            raise HeadLostError("no access file")
        return Access("c1", "worker", (self.address,), None)

    async def work(self, link):
        befall = self.befalls.pop(0)
        await link.aclose()
        if befall == "ends":
            return
        if befall != "breaks":
            link._welcomed(Welcome("c1", 5.0, [], "n1", "", "", -1, befall == "returns"))
        raise HeadLostError("it broke")

    async def serve(self, *, wait):
        async with anyio.create_task_group() as tasks:
            with listen(parse_address("tcp://127.0.0.1:0")) as listener:
                self.address = listener.address
                tasks.start_soon(listener.serve, self.take)
                with anyio.fail_after(LIMIT_S):
                    way = HeadLocator(self.find, insecure=True)
                    stop = anyio.Event()
                    serves = partial(_serve_heads, wait=wait, patience=LIMIT_S, idle=self)
                    await serves(way, self.work, Cores([0]), "n1", stop)
                tasks.cancel_scope.cancel()

    async def take(self, link):
        await link.run(lambda frames: None)


async def test_one_that_waits_dials_again_when_its_link_breaks_before_a_welcome():
    cluster = Cluster("breaks", "breaks", "ends")
    await cluster.serve(wait=True)
    assert cluster.looks == 3


async def test_one_that_does_not_wait_says_so():
    cluster = Cluster("breaks", "ends")
    with pytest.raises(ExceptionGroup) as found:
        await cluster.serve(wait=False)
    assert found.group_contains(HeadLostError, match="it broke")
    assert cluster.looks == 1


async def test_a_head_that_returns_is_waited_for_when_its_worker_begins_anew():
    cluster = Cluster("returns", "ends", absent=2)
    await cluster.serve(wait=False)
    assert cluster.looks == 4
    connects, joined, waits = False, True, True
    assert cluster.idle == [connects, joined, waits, connects]


async def test_a_head_that_does_not_return_is_not():
    cluster = Cluster("stays away", "ends", absent=2)
    with pytest.raises(ExceptionGroup) as found:
        await cluster.serve(wait=False)
    assert found.group_contains(HeadLostError, match="no access file")
