"""What the tests of runner processes share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from raw_runner import Gate

from grainlike_worker.ipc._claims import ClaimPage


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


@pytest.fixture
def claims() -> Iterator[ClaimPage]:
    page = ClaimPage.create()
    yield page
    page.close()
