"""One copy of an argument that many calls have, in the shared memory of this machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plain_calls import changed, fails_once, item

from grainlike import Cores, Executor, Retry, delayed, gather, start
from grainlike.payload import Store

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no shared memory in the file system"),
]

MIB = 1 << 20


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Bytes of the files that this program writes to shared memory; at the end nothing is left of them."""
    sizes: list[int] = []
    paths: list[Path] = []
    write = Store._write

    def noted(self: Store, name: str, buffers: Any) -> None:
        sizes.append(sum(buffer.nbytes for buffer in buffers))
        paths.append(self.directory / name)
        write(self, name, buffers)

    monkeypatch.setattr(Store, "_write", noted)
    yield sizes
    assert not [path for path in paths if path.exists()]


async def read_and_change(array: Any, at: int) -> float:
    found = float(array[at])
    array[:] = -1.0
    return found


async def test_fifty_jobs_with_one_array_have_one_copy(written: list[int]) -> None:
    array = np.arange(64 * MIB // 8, dtype=np.float64)
    async with Executor(local=Cores(2)):
        call = delayed(item) @ Cores(1)
        assert await gather(call(array, at) for at in range(50)) == list(range(50))
    assert written == [64 * MIB]


@pytest.mark.parametrize("function", [changed, read_and_change])
async def test_what_a_job_does_to_it_changes_nothing_for_others(written: list[int], function: Any) -> None:
    array = np.ones(2 * MIB // 8)
    async with Executor(local=Cores(2)):
        changes, reads = delayed(function) @ Cores(1), delayed(item) @ Cores(1)
        values = await gather(change(array, at) for at in range(6) for change in (changes, reads))
        assert values[1::2] == [1.0] * 6
        assert array[0] == 1.0
    assert written == [2 * MIB]


async def test_what_the_program_does_to_it_later_is_seen_by_later_calls_alone(written: list[int]) -> None:
    array = np.ones(2 * MIB // 8)
    async with Executor(local=Cores(1)):
        call = delayed(item) @ Cores(1)
        first_ = [call(array, at) for at in range(3)]
        for call_ in first_:
            start(call_)
        array[:] = 2.0
        second_ = [call(array, at) for at in range(3)]
        assert await gather(*first_, *second_) == [1.0] * 3 + [2.0] * 3
    assert written == [2 * MIB] * 2


async def test_it_stays_for_another_attempt(written: list[int], tmp_path: Path) -> None:
    array = np.ones(2 * MIB // 8)
    async with Executor(local=Cores(1)):
        again = delayed(fails_once, retries=Retry(1)) @ Cores(1)
        assert await gather(again(array, str(tmp_path / f"mark{at}")) for at in range(3)) == [2.0] * 3
    assert written == [2 * MIB]


async def test_two_executors_of_one_program_do_not_mix_up_their_arguments(written: list[int]) -> None:
    """The first job of each has the same number."""
    first, second = np.full(40_000, 1.0), np.full(40_000, 2.0)
    call = delayed(read_and_change) @ Cores(1)
    async with Executor(local=Cores(1)):
        first_ = start(call(first, 0))
        async with Executor(local=Cores(1)):
            second_ = start(call(second, 0))
            assert await second_ == 2.0
        assert await first_ == 1.0
    assert written == [320_000] * 2
