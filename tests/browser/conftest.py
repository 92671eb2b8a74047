"""Chromium of this machine, driven by Playwright; without it these tests fail, not pass in silence."""

import os
import shutil

import pytest

ASKED = bool(os.environ.get("GRAINLIKE_TEST_DASHBOARD"))
collect_ignore_glob = [] if ASKED else ["test_*.py"]


@pytest.fixture(params=[pytest.param(("asyncio", {}), id="asyncio")])
def anyio_backend(request):
    """The event loop that both Playwright and the dashboard run in."""
    return request.param


@pytest.fixture
def chromium():
    """Path of the browser."""
    found = shutil.which("chromium")
    if found is None:
        pytest.fail("chromium is not installed: apt-get install chromium", pytrace=False)
    return found
