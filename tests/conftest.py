"""What every test may ask for: the two event loops that grainlike promises to run on."""

import gc
import os
import signal
import tempfile
from typing import Any

import pytest

try:
    # Before all is frozen, below: it asks the collector who refers to trio's dice.
    from hypothesis import settings
except ImportError:  # the environment of the engines' tests has none of it
    pass
else:
    # A busy machine is no defect: no example has a limit of time.
    settings.register_profile("grainlike", deadline=None)
    settings.load_profile("grainlike")

# Programs of one user take cores that others of them do not use; these tests say which cores they expect.
_RUNTIME = tempfile.TemporaryDirectory(prefix="grainlike-tests-")
os.environ["XDG_RUNTIME_DIR"] = _RUNTIME.name
# And no test is for the settings of whoever runs it.
os.environ["XDG_CONFIG_HOME"] = _RUNTIME.name

# A shell lets what it starts in the background ignore Ctrl-C, and all that this starts inherits it; tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection() -> None:
    """Collect no garbage while tests are collected: there is hardly any, and all of them would be looked through."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage as usual from now on."""
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def frozen_objects() -> None:
    """Freeze what was there before the tests of a file: thousands of collected tests, modules, and reports.

    The garbage collector would look through all of it in each test anew.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The backend of a test marked `anyio`: each such test runs once on asyncio and once on trio."""
    return (request.param, {"use_uvloop": False} if request.param == "asyncio" else {})
