"""Numbers that a device has worked out, and arrays that lie there, as values of jobs."""

import asyncio
import importlib.util

import pytest
from gpu_calls import matrix_on_device, multiply, product, sum_of_squares, total
from gpu_device import LIMIT_S, StartProgram

from grainlike import Cores, Executor, GPUs

pytestmark = pytest.mark.anyio

SUM_OF_SQUARES = 332_833_500
"""Of the numbers below 1000."""


async def test_a_product_of_matrices_is_right_and_comes_back() -> None:
    import torch

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(4) & GPUs(1)):
        for size in (16, 512):  # the second is a value that stays where it was made
            assert torch.equal(await (multiply @ GPUs(1))(size), product(size, "cpu"))


async def test_a_large_tensor_on_the_device_goes_from_job_to_job() -> None:
    """The program, which has no context of CUDA, does not load it; a small one it would."""
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(4) & GPUs(1)):
        where, sum_ = await (total @ GPUs(1))((matrix_on_device @ GPUs(1))(512))
        assert (where, sum_) == ("cuda:0", 512.0 * 512.0)


@pytest.mark.parametrize(
    ("library", "kind"), [("torch", "torch.Tensor"), ("cupy", "cupy.ndarray"), ("jax", "ArrayImpl")]
)
async def test_an_array_on_the_device_comes_into_a_program_that_has_the_device(
    library: str, kind: str, program: StartProgram
) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    # Else JAX takes three quarters of the device's memory, in the job's process and again in the program's.
    found = await asyncio.to_thread(program("array", library, XLA_PYTHON_CLIENT_PREALLOCATE="false").said)
    assert found["type"].split(".")[-1] == kind.split(".")[-1]
    assert found["sum"] == SUM_OF_SQUARES


async def test_a_tensor_on_the_device_is_a_clear_error_in_a_program_that_has_none(program: StartProgram) -> None:
    found = await asyncio.to_thread(program("hidden").said)
    assert "cannot be rebuilt here" in found["error"]
    assert "CUDA" in found["error"]


async def test_an_array_of_another_library_may_follow_in_the_same_process() -> None:
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("cupy is not installed")
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(4) & GPUs(1)):
        for library in ("torch", "cupy", "torch"):
            assert await (sum_of_squares @ GPUs(1))(library, 1000) == SUM_OF_SQUARES
