"""A graph whose jobs share devices: the first line R of the acceptance list, on every kind of worker."""

import pytest
from stagehands import Stage, appear_blocking

from grainlike import Executor, delayed, info, parse, start

pytestmark = pytest.mark.anyio


def diamond(path: str, gpu: str):
    """Preprocess, two trainings on a GPU each, evaluate; each waits on stage for its cue."""

    @delayed
    def preprocess():
        appear_blocking(path, "preprocess")
        return 1

    @delayed
    def train(name, data):
        appear_blocking(path, name)
        return data + 1

    @delayed
    def evaluate(one, other):
        appear_blocking(path, "evaluate")
        return one, other

    data = (preprocess @ parse("cores=2 memory=1Gi"))()
    need = parse(f"cores=4 memory=2Gi {gpu}=1")
    trained = [(train @ need)(name, data) for name in ("one", "two")]
    return (evaluate @ parse("cores=1 memory=1Gi"))(*trained), trained


async def test_r1_with_two_gpus_the_trainings_of_a_diamond_overlap(executor: Executor, stage: Stage):
    result, _ = diamond(stage.path, "gpus")
    start(result)
    await stage.wait_for("preprocess")
    await stage.cue("preprocess")
    await stage.wait_for("one", "two")
    assert stage.names == {"one", "two"}
    await stage.cue_all()
    await stage.wait_for("evaluate")
    await stage.cue("evaluate")
    assert await result == (2, 2)


async def test_r1_with_one_gpu_they_do_not(executor: Executor, stage: Stage):
    result, trained = diamond(stage.path, "gpu0")
    start(result)
    await stage.wait_for("preprocess")
    await stage.cue("preprocess")
    await stage.wait_for("one")
    assert info(trained[1]).state == "pending"
    await stage.cue("one")
    await stage.wait_for("two")
    assert stage.names == {"two"}
    await stage.cue("two")
    await stage.wait_for("evaluate")
    await stage.cue("evaluate")
    assert await result == (2, 2)
