"""Named resources: the lines K of the acceptance list, each on every kind of worker."""

import logging
import os

import pytest
from stagehands import Stage, appear_blocking
from waiting import until

from grainlike import (
    GVAR,
    Cores,
    Executor,
    GPUs,
    Memory,
    Resource,
    ResourceSpecError,
    UnsatisfiableError,
    cancel,
    delayed,
    gather,
    info,
    parse,
    start,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def command(stage: Stage):
    """A plain delayed function that appears on stage under its argument."""
    path = stage.path
    return delayed(lambda name: appear_blocking(path, name))


async def test_k1_two_of_foo_5_on_foo_7_one_after_the_other(executor: Executor, stage: Stage, command):
    jobs = [start((command @ parse("foo=5"))(name)) for name in ("one", "two")]
    await stage.wait_for("one")
    assert info(jobs[1]).state == "pending"
    await stage.cue("one")
    await stage.wait_for("two")
    await stage.cue("two")
    await gather(jobs)
    assert [entry for entry in stage.log if entry[0] != "gone"] == [
        ("begin", "one"),
        ("cue", "one"),
        ("begin", "two"),
        ("cue", "two"),
    ]


async def test_k1_two_of_goo_5_on_goo_12_together(executor: Executor, stage: Stage, command):
    jobs = [start((command @ parse("goo=5"))(name)) for name in ("one", "two")]
    await stage.wait_for("one", "two")
    await stage.cue_all()
    await gather(jobs)


async def test_k2_a_name_that_no_worker_has_is_told_once_and_the_others_go_on(
    executor: Executor, stage: Stage, command, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING, "grainlike")
    impossible = [start((command @ parse("zzz=1 aaa=1 foo=1"))(f"never{i}")) for i in range(2)]
    possible_ = start((command @ parse("foo=1"))("possible"))
    await stage.wait_for("possible")
    await stage.cue("possible")
    await possible_
    if executor.address is None:  # nobody else can ever come: it is refused at once
        for r_ in impossible:
            with pytest.raises(UnsatisfiableError, match="no worker has aaa, zzz"):
                await r_
    else:  # a worker may come yet: it waits, and says so
        assert [info(r_).state for r_ in impossible] == ["pending"] * 2
        assert len(caplog.records) == 1
        assert "1 job waits for a worker that can give aaa=1 foo=1 zzz=1: no worker has aaa, zzz" in caplog.text
        assert "never" not in caplog.text
        for r_ in impossible:
            cancel(r_)
    assert stage.begun == ["possible"]


async def test_k3_requests_as_text_merge_and_are_shown_sorted(executor: Executor):
    request = parse("goo=2 foo=1", "cores=1")
    assert str(request) == "cores=1 foo=1 goo=2"
    assert await (delayed(lambda: str(GVAR.res.request)) @ request)() == "cores=1 foo=1 goo=2"


async def test_k5_what_fits_starts_beside_what_waits(executor: Executor, stage: Stage, command):
    """Three rounds for aaa, bbb, ccc, ddd: nobody reordered them, and no slot was idle that could have been used."""
    needs = {"aaa": "gpu0=1", "bbb": "gpu0=1", "ccc": "gpu0=1 gpu1=1", "ddd": "gpu1=1"}
    jobs = [start((command @ parse(text))(name)) for name, text in needs.items()]
    rounds = []
    for size in (2, 1, 1):
        rounds.append(await stage.wait_for_count(size))
        await stage.cue_all()
    await gather(jobs)
    assert rounds[0] == {"aaa", "ddd"}
    assert rounds[1] | rounds[2] == {"bbb", "ccc"}


async def test_k5_streams_of_narrow_jobs_cannot_put_the_wide_one_off(executor: Executor, stage: Stage, command):
    """gpu0 and gpu1 are never free at the same moment, unless the first that is free is kept for the wide one."""
    zero, one = parse("gpu0=1"), parse("gpu1=1")
    first = [start((command @ zero)("zero")), start((command @ one)("one"))]
    await stage.wait_for("zero", "one")
    wide_ = start((command @ (zero & one))("wide"))
    more = [start((command @ request)(f"more{i}")) for i, request in enumerate([one, zero] * 3)]
    await stage.cue("one")
    await first[1]
    assert [info(r_).worker for r_ in more] == [None] * 6
    await stage.cue("zero")
    await stage.wait_for("wide")
    assert stage.names == {"wide"}
    await stage.cue("wide")
    for _ in range(3):
        await stage.wait_for_count(2)
        await stage.cue_all()
    await gather(*first, wide_, *more)


async def test_k6_the_environment_shows_the_devices_that_were_given(executor: Executor, stage: Stage):
    path = stage.path

    def devices(name):
        appear_blocking(path, name)
        return os.environ["CUDA_VISIBLE_DEVICES"]

    one_each = [start((delayed(devices) @ GPUs(1))(name)) for name in ("one", "other")]
    await stage.wait_for("one", "other")
    both_ = start((delayed(devices) @ GPUs(2))("both"))
    await stage.cue_all()
    assert sorted(await gather(one_each)) == ["0", "1"]
    await stage.wait_for("both")
    await stage.cue("both")
    assert await both_ == "0,1"


async def test_k8_an_amount_above_every_capacity_is_refused_at_once(executor: Executor):
    fn = delayed(lambda: None)
    for request in (Cores(9), Memory("9Gi"), Resource("foo", 8)):
        r_ = (fn @ request)()
        if executor.address is None:
            with pytest.raises(UnsatisfiableError, match=r"local"):
                await r_
            assert info(r_).state == "failed"
        else:
            start(r_)
            await until(lambda r_=r_: info(r_).state == "pending")  # a job that waits is no event
            cancel(r_)
    with pytest.raises(ResourceSpecError, match="many"):
        parse("foo=many")
