"""The plugin of pytest: its fixtures in the event loop of the test, and what it says of tests that cannot work so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from limits import LIMIT_S

ROOT = Path(__file__).parents[2]

CALLS = "from grainlike import delayed\n\n\n@delayed\ndef one():\n    return 1\n"
CONFTEST = 'pytest_plugins = ["grainlike.testing.plugin"]\n'


def suite(folder, text, *options, **settings):
    """Run a suite of one module; return what pytest has printed."""
    settings = {"asyncio_default_fixture_loop_scope": "function", **settings}
    files = {"conftest.py": CONFTEST, "calls.py": CALLS, "test_it.py": text}
    files["pytest.ini"] = "\n".join(["[pytest]", *(f"{name} = {value}" for name, value in settings.items())])
    for name, body in files.items():
        (folder / name).write_text(body)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "--tb=short", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "worker"), str(folder)])},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return ended.stdout + ended.stderr


SCOPES = """import pytest
from calls import one
from grainlike import Cores

@pytest.mark.asyncio
async def test_default(executor):
    assert await (one @ Cores(1))() == 1
    assert executor.report().succeeded == 1

@pytest.mark.asyncio(loop_scope="class")
class TestClass:
    async def test_class(self, executor):
        assert await (one @ Cores(1))() == 1
        assert executor.report().succeeded == 1

@pytest.mark.asyncio(loop_scope="function")
async def test_function(executor):
    assert await (one @ Cores(1))() == 1
    assert executor.report().succeeded == 1

@pytest.mark.asyncio(loop_scope="package")
async def test_package(executor):
    assert await (one @ Cores(1))() == 1
    assert executor.report().succeeded == 1

@pytest.mark.asyncio(loop_scope="module")
async def test_module(executor):
    assert await (one @ Cores(1))() == 1
    assert executor.report().succeeded == 1

@pytest.mark.asyncio(loop_scope="session")
async def test_session(cluster):
    two = await cluster(nodes=[Cores(1)])
    assert await (one @ Cores(1))() == 1
    assert two.executor.report().succeeded == 1

@pytest.mark.asyncio
async def test_default_again(executor):
    assert await (one @ Cores(1))() == 1
    assert executor.report().succeeded == 1
"""


@pytest.mark.parametrize(("tests", "fixtures"), [("function", "session"), ("session", "function")])
def test_fixtures_are_opened_in_the_event_loop_of_the_test(tmp_path, tests, fixtures):
    pytest.importorskip("pytest_asyncio")
    printed = suite(
        tmp_path,
        SCOPES,
        "-Werror",
        asyncio_default_test_loop_scope=tests,
        asyncio_default_fixture_loop_scope=fixtures,
    )
    assert "7 passed" in printed, printed


ROUND = """import pytest
import pytest_asyncio
from calls import one
from grainlike import Cores, Executor
from grainlike.testing import Cluster

pytestmark = {mark}

@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param

@{fixture}
async def wide({argument}):
    async with Executor(local=Cores(1)) as opened:
        yield opened

async def test_wide(wide):
    assert await (one @ Cores(1))() == 1
    assert wide.report().succeeded == 1

async def test_executor(executor):
    assert await (one @ Cores(1))() == 1
    assert executor.report().succeeded == 1

async def test_cluster(cluster):
    two = await cluster(nodes=[Cores(1)])
    assert await (one @ Cores(1))() == 1
    assert two.executor.report().succeeded == 1

async def test_block():
    async with Cluster(nodes=[Cores(1)]) as two:
        assert await (one @ Cores(1))() == 1
        assert two.executor.report().succeeded == 1

async def test_wide_again(wide):
    assert await (one @ Cores(1))() == 1
    assert wide.report().succeeded == 2
"""


@pytest.mark.parametrize(
    ("mark", "fixture", "argument", "passed"),
    [
        ("pytest.mark.anyio", 'pytest.fixture(scope="module")', "anyio_backend", 10),
        (
            'pytest.mark.asyncio(loop_scope="module")',
            'pytest_asyncio.fixture(scope="module", loop_scope="module")',
            "",
            5,
        ),
    ],
)
def test_an_executor_that_a_module_keeps_open_leaves_later_ones_their_calls(tmp_path, mark, fixture, argument, passed):
    pytest.importorskip("pytest_asyncio")
    printed = suite(tmp_path, ROUND.format(mark=mark, fixture=fixture, argument=argument), "-Werror")
    assert f"{passed} passed" in printed, printed


BOTH = """import pytest
from calls import one
from grainlike import Cores

@pytest.mark.anyio
async def test_of_anyio(executor):
    assert await (one @ Cores(1))() == 1

@pytest.mark.anyio
async def test_of_anyio_on_a_cluster(cluster):
    await cluster(nodes=[Cores(1)])

async def test_of_asyncio(executor):
    assert await (one @ Cores(1))() == 1
"""


def test_a_test_that_two_plugins_run_is_refused_in_words(tmp_path):
    pytest.importorskip("pytest_asyncio")
    printed = suite(tmp_path, BOTH, asyncio_mode="auto")
    assert "1 passed, 4 errors" in printed, printed
    assert "test_of_anyio[asyncio] is for anyio's plugin, and pytest-asyncio runs it" in printed
    assert "write `asyncio_mode = strict`" in printed


FORGOTTEN = """import pytest
from calls import one
from grainlike import Cores, Executor

pytestmark = pytest.mark.anyio

@pytest.fixture
def anyio_backend():
    return "asyncio"

async def test_forgets():
    assert await (one @ Cores(1))() == 1

@pytest.mark.filterwarnings("ignore::grainlike.testing.ImplicitExecutorWarning")
async def test_means_it():
    assert await (one @ Cores(1))() == 1

async def test_opens_one_itself():
    async with Executor(local=Cores(1)):
        assert await (one @ Cores(1))() == 1

async def test_has_one(executor):
    assert await (one @ Cores(1))() == 1
"""


def test_a_test_that_forgot_its_fixture_has_a_warning(tmp_path):
    printed = suite(tmp_path, FORGOTTEN)
    assert "4 passed, 1 warning" in printed, printed
    assert "no executor was open when test_forgets awaited calls" in printed
    printed = suite(tmp_path, FORGOTTEN, "-Werror")
    assert "1 failed, 3 passed" in printed, printed
    assert "ImplicitExecutorWarning: no executor was open when test_forgets awaited calls" in printed
