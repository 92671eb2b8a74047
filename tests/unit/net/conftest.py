"""Links stand on transports that differ between loops, so uvloop is a backend of its own here."""

from typing import Any

import pytest
from link_pairs import KINDS, SOCKETS


@pytest.fixture(params=["asyncio", "uvloop", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The backend of a test marked `anyio`."""
    if request.param == "trio":
        return "trio", {}
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=SOCKETS)
def socket_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)
