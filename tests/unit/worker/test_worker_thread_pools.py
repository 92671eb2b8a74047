"""Native thread pools: which libraries are loaded in this process."""

import mmap
import sys
from pathlib import Path

import pytest

from grainlike_worker.runner.common._thread_pools import loaded_any


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not show what is loaded")
@pytest.mark.parametrize(("name", "found"), [("zlompy/libplain.so", False), ("plain/libzlompy.so.3", True)])
def test_a_library_is_found_by_its_file_and_not_by_its_folder(name: str, found: bool, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir()
    path.write_bytes(b"\0" * mmap.PAGESIZE)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        assert loaded_any([b"zlompy"], unknown=False) is found
