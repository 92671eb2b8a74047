"""What every test may ask for: the two event loops that grainlike promises to run on."""

import signal
from typing import Any

import pytest

# A shell lets what it starts in the background ignore Ctrl-C, and all that this starts inherits it; tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The backend of a test marked `anyio`: each such test runs once on asyncio and once on trio."""
    return (request.param, {"use_uvloop": False} if request.param == "asyncio" else {})
