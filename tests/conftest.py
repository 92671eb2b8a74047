"""What every test may ask for: the two event loops that grainlike promises to run on."""

from typing import Any

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The backend of a test marked `anyio`: each such test runs once on asyncio and once on trio."""
    return (request.param, {"use_uvloop": False} if request.param == "asyncio" else {})


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Integration tests watch what is left on the machine, and take all its cores: never two of them at a time."""
    for item in items:
        if "integration" in item.path.parts:
            item.add_marker(pytest.mark.xdist_group("integration"))
