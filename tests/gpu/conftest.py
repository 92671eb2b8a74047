"""Fixtures of the tests that `make test-gpu` runs: they take an NVIDIA device, nvidia-smi, and PyTorch with CUDA.

CuPy and JAX are tried where they are installed. One device is enough; nobody else may use it meanwhile.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gpu_device
import pytest

collect_ignore_glob = [] if os.environ.get("GRAINLIKE_TEST_GPU") else ["test_*.py"]

if not collect_ignore_glob:
    # Programs of one user take cores that others do not use; and no test is for the settings of whoever runs it.
    _RUNTIME = tempfile.TemporaryDirectory(prefix="grainlike-tests-")
    os.environ["XDG_RUNTIME_DIR"] = os.environ["XDG_CONFIG_HOME"] = _RUNTIME.name
    # And what starts programs and workers here need not say where the package is.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [gpu_device.PYTHONPATH, os.environ.get("PYTHONPATH")]))

_costs: list[str] = []


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of tests marked `anyio`: what is tried here does not depend on it."""
    return "asyncio"


@pytest.fixture(autouse=True)
def nothing_left_on_the_device() -> Iterator[None]:
    """Fail a test after which the device has less free memory than before."""
    before = gpu_device.used()
    yield
    left = gpu_device.left_beyond(before)
    assert not left, f"{left} MiB of the device's memory are still in use"


@pytest.fixture
def note_cost() -> Callable[[str], None]:
    """Return what keeps a line for the end of the report: what something cost, which nothing is asserted of."""
    return _costs.append


@pytest.fixture
def program(tmp_path: Path) -> Iterator[gpu_device.StartProgram]:
    """Return what starts one of the programs of `gpu_programs.py`; those that still run are killed after the test."""
    running: list[gpu_device.Program] = []

    def start(*arguments: object, **environment: str) -> gpu_device.Program:
        running.append(gpu_device.Program(tmp_path, arguments, environment))
        return running[-1]

    yield start
    for one in running:
        one.end()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Write what was noted."""
    if _costs:
        terminalreporter.section("what it costs")
        for line in _costs:
            terminalreporter.write_line(line)
