"""Calls that use a device, by PyTorch, CuPy or JAX: a process that runs one imports what it takes, and no tests."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from grainlike import GVAR, delayed

__all__ = [
    "Seen",
    "break_device",
    "fill",
    "fill_anew",
    "fill_beside",
    "hold",
    "loop",
    "loop_in_time",
    "matrix_on_device",
    "meet",
    "multiply",
    "overfill",
    "product",
    "seen",
    "spin",
    "squares",
    "sum_of_squares",
    "total",
]

LOOK_S = 0.01


class Seen(NamedTuple):
    """What a job finds."""

    pid: int
    gpus: tuple[int, ...]
    mask: str
    available: bool
    uuids: list[str]


@delayed
def seen() -> Seen:
    import torch

    count = torch.cuda.device_count()
    uuids = [f"GPU-{torch.cuda.get_device_properties(number).uuid}" for number in range(count)]
    mask = os.environ.get("CUDA_VISIBLE_DEVICES", "absent")
    if count:
        torch.ones(1, device="cuda")  # it holds a context from now on
    return Seen(os.getpid(), GVAR.res.gpus, mask, torch.cuda.is_available(), uuids)


def product(size: int, where: str) -> Any:
    """Return a product of matrices of small whole numbers, which floats hold exactly."""
    import torch

    numbers = torch.arange(size * size, device=where).reshape(size, size)
    return numbers.remainder(7).float() @ numbers.remainder(5).float()


@delayed
def multiply(size: int) -> Any:
    return product(size, "cuda").cpu()


# --- values ----------------------------------------------------------------------------------------------------------


@delayed
def matrix_on_device(size: int) -> Any:
    import torch

    return torch.ones(size, size, device="cuda")


@delayed
def total(matrix: Any) -> tuple[str, float]:
    return str(matrix.device), float(matrix.sum())


@delayed
def squares(library: str, count: int) -> Any:
    return _squares(library, count)


@delayed
def sum_of_squares(library: str, count: int) -> int:
    return int(_squares(library, count).sum())


def _squares(library: str, count: int) -> Any:
    """Return an array that lies on the device."""
    if library == "torch":
        import torch

        return torch.arange(count, device="cuda") ** 2
    if library == "cupy":
        import cupy

        return cupy.arange(count) ** 2
    import jax.numpy as jnp

    return jnp.arange(count) ** 2


# --- memory ----------------------------------------------------------------------------------------------------------


def _fill(share: float) -> int:
    import torch

    free, whole = torch.cuda.mem_get_info()
    try:
        torch.empty(int(whole * share), dtype=torch.uint8, device="cuda").fill_(1)
        torch.cuda.synchronize()
    except torch.OutOfMemoryError as error:
        error.add_note(f"process {os.getpid()} found {free >> 20} of {whole >> 20} MiB free")
        raise
    return os.getpid()


@delayed
def fill(share: float) -> int:
    """Take a share of the device's memory; what is dropped stays in PyTorch's cache, for the next of this process."""
    return _fill(share)


@delayed
def fill_anew(share: float) -> int:
    """Do the same; another function."""
    return _fill(share)


@delayed
def fill_beside(folder: str, number: int, share: float) -> int:
    """Do the same once another job has come that does it, too."""
    _meet(Path(folder), number, others=1)
    return _fill(share)


@delayed
def overfill() -> None:
    import torch

    torch.empty(2 * torch.cuda.mem_get_info()[1], dtype=torch.uint8, device="cuda")


# --- failures, and what does not end ---------------------------------------------------------------------------------


@delayed
def break_device() -> float:
    """Read beyond an array, in a kernel: from then on every call of CUDA in this process fails."""
    import torch

    row = torch.zeros(4, device="cuda")
    return float(row[torch.tensor([10], device="cuda")].sum())


@delayed
def spin(path: str) -> None:
    """Wait for a kernel that does not end, where no signal reaches Python."""
    import torch

    torch.cuda._sleep(10**15)
    _write(path)
    torch.cuda.synchronize()


@delayed
def loop(path: str) -> None:
    """Start kernels for ever."""
    _loop(path)


@delayed(timeout=10.0)
def loop_in_time(path: str) -> None:
    """Do the same, for as long as it may."""
    _loop(path)


def _loop(path: str) -> None:
    import torch

    matrix = torch.eye(256, device="cuda")
    torch.cuda.synchronize()
    _write(path)
    while True:
        matrix = matrix @ matrix
        torch.cuda.synchronize()


def _write(path: str) -> None:
    """Write this process's id, so that whoever finds the file finds all of it."""
    new = Path(f"{path}.new")
    new.write_text(str(os.getpid()))
    new.rename(path)


# --- jobs that are there at one time ---------------------------------------------------------------------------------


def _meet(folder: Path, number: int, others: int) -> None:
    (folder / f"here-{number}").touch()
    while len(list(folder.glob("here-*"))) <= others:
        time.sleep(LOOK_S)


@delayed
def meet(folder: str, number: int) -> tuple[list[str], list[str]]:
    """Come together with another; return the devices that it saw, and which jobs had ended before it began."""
    import torch

    place = Path(folder)
    ended = sorted(path.name for path in place.glob("ended-*"))
    torch.ones(1, device="cuda")
    uuids = [f"GPU-{torch.cuda.get_device_properties(0).uuid}"]
    _meet(place, number, others=1)
    while not (place / "go").exists():
        time.sleep(LOOK_S)
    (place / f"ended-{number}").touch()
    return uuids, ended


@delayed
def hold(folder: str) -> int:
    """Hold a process, without a device, until it is let go."""
    place = Path(folder)
    (place / "here").touch()
    while not (place / "go").exists():
        time.sleep(LOOK_S)
    return os.getpid()
