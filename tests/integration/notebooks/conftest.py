"""A kernel for each file of tests here, which leaves the machine as it found it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from jupyter_core.utils import ensure_event_loop
from notebooks import Kernel, running_kernel

# Jupyter's client makes one event loop for a program with its first call, and keeps it.
ensure_event_loop()


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """The kernel's processes outlive a test: `kernel` looks for what it leaves behind."""


@pytest.fixture(scope="module")
def kernel(
    tmp_path_factory: pytest.TempPathFactory, watch_leaks: Callable[[], AbstractContextManager[None]]
) -> Iterator[Kernel]:
    with watch_leaks(), running_kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        yield kernel
