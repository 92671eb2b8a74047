"""Where the journals of these tests lie: thousands of files are cut and written again, which a disk makes slow."""

import os
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture
def tmp_path(tmp_path):
    """A directory in memory, where the system has such a place."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="grainlike-test-") as path:
        yield Path(path)
