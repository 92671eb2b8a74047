"""`run_combine`, which opens an event loop of its own."""

import pytest

from grainlike import Cores
from grainlike.combine import exec1, run_combine


async def double(x):
    return 2 * x


async def one():
    return await exec1(Cores(1), double, 1)


async def two():
    return await exec1(Cores(2), double, 2)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_g18_run_combine_runs_one_or_several_mains(backend):
    assert run_combine(one, [], Cores(2), backend=backend) == 2
    assert run_combine([one, two], resources=Cores(2), backend=backend) == [2, 4]


def test_g18_workers_are_not_dialled():
    with pytest.raises(ValueError, match=r"leave \['n1'\] out.*grainlike worker"):
        run_combine(one, ["n1"], Cores(2))
