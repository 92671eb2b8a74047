"""Examples of the reference are code that runs: each is compiled, and run where it can be.

Lines of an interactive session are doctests. Others are run one after another, those of clusters in a cluster and the
others in an executor of this process that is a head, too; what an example takes from the text around it is defined
before it (`BEFORE`). `CANNOT` says of the rest why it is only compiled.
"""

import contextlib
import doctest
import io
import re
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
import pytest
import reference_calls
from kept_pools import close_kept
from limits import LIMIT_S
from reference import SHOWN, Example, examples_of

import grainlike
from grainlike import Cores, Executor, GPUs, Memory, adapters, launch, telemetry, testing
from grainlike.client import call

EXAMPLES = [example for name in SHOWN for example in examples_of(name)]
SESSIONS = [example for example in EXAMPLES if example.is_session]
PROGRAMS = [example for example in EXAMPLES if not example.is_session]

_BATCH = "it takes a batch system, or machines"
_PYTEST = "it is a test or a fixture of pytest"
_ENGINE = "it takes an engine of another kind"
CANNOT: dict[str, str] = {
    "BlockEndedError": "it ends a worker, and no program",
    "JobMemoryError": "it takes gigabytes of memory",
    "JournalError": "it takes a disk that is full",
    "LaunchError": _BATCH,
    "ProtocolError": "it takes a head with a fault",
    "ValueLostError": "it takes a worker that dies",
    "VersionMismatchError": "it takes a head of another version",
    "CeleryBackend": _ENGINE,
    "DaskBackend": _ENGINE,
    "RayBackend": _ENGINE,
    "Executor.events": "it goes on until somebody ends it",
    "jobs.Events.aclose": "it goes on until somebody ends it",
    "Executor.pool": _BATCH,
    "Executor.up": _BATCH,
    "Executor.wait_for_workers": "it waits for workers on other machines",
    "executor.LaunchedPool.scale": _BATCH,
    "executor.LaunchedPool.down": _BATCH,
    "launch.load": "it takes settings",
    "replicate": "it takes a bucket",
    "result": "it takes ASE",
    "run_process": "it takes a solver",
    "testing.ImplicitExecutorWarning": _PYTEST,
    "testing.plugin.cluster": _PYTEST,
    "testing.plugin.executor": _PYTEST,
    "testing.plugin.executor_offer": _PYTEST,
    **{name: _BATCH for name in SHOWN if re.fullmatch(r"launch\.\w+\.check", name)},
}
"""Why an example is not run, by the name of what it is about."""

IN_THREAD: set[str] = {
    "adapters.GrainlikePool",
    "adapters.dask_get",
    "adapters.register_joblib",
    "run",
    *(
        f"adapters.GrainlikePool.{method}"
        for method in ("abandon", "call_back", "slots", "start", "submit", "submit_as")
    ),
    "adapters.GrainlikePool.shutdown",
}
"""Examples for programs without an event loop."""

_DAG = "dag = Dag()\ndag.add('clean', plain, 1, request=Cores(1))\n"
_RUNNING = "r_ = start((fit @ Cores(1))(1))\n"
_POOL = "pool = ResourcePool({'cores': 4, 'gpus': 1, 'cpu': 2, 'launches': 2})\nwork = train = some\nlaunch = plain\n"
_VIRTUAL = (
    "fits_ = [(fit @ Cores(4))(fold) for fold in range(4)]\n"
    "virtual = VirtualCluster([Cores(4)], durations={'fit': 600})\n"
)
_GRAINLIKE_POOL = (
    "from concurrent.futures import FIRST_EXCEPTION, wait\n"
    "pool = GrainlikePool(Cores(1), local=Cores(4))\n"
    "add, load, fit, data, table = merge, train, plain, np.arange(4), 1\n"
    "futures = [pool.submit(fit, 1)]\n"
)
_METHODS_OF_POOL = ("abandon", "call_back", "slots", "start", "submit", "submit_as", "shutdown")
_AFTER_POOL = "pool.shutdown()\n"

BEFORE: dict[str, str] = {
    "AuthenticationError": "Path('client.json').write_text('{\"version\": 1}')\nPath('client.json').chmod(0o644)\n",
    "Callbacks": _DAG,
    "Dag": "path, notify, clean, fit = 1, plain, plain, plain\n",
    "Dag.add": "dag = Dag()\npath, clean, fit = 1, plain, plain\n",
    "Dag.critical_path": _DAG,
    "Dag.from_edges": "f = g = plain\n",
    "Dag.mermaid": _DAG,
    "Dag.picture": _DAG,
    "Dag.run": _DAG + "run = plain\n",  # that of a script
    "Delayed": "fn, x = delayed(numbers), 3\n",
    "DelayedFn": "simulate, x = plain, 3\n",
    "Executor.explain": _RUNNING,
    "Executor.logs": "data = 3\n",
    "Executor.write_trace": "main = some\n",
    "Partition": _DAG,
    "ProcessBackend": _DAG,
    "ResourcePool.acquire": _POOL,
    "ResourcePool.flush": _POOL,
    "ResourcePool.hold": _POOL,
    "ResourcePool.register": _POOL,
    "ResourcePool.relinquish": _POOL + "await pool.reserve({'launches': 1})\n",
    "ResourcePool.reserve": _POOL,
    "SerializationError": "import threading\n",
    "ThreadBackend": _DAG,
    "maps.MapIterator.aclose": "urls = ['a', 'b']\n",
    "amap": "urls = ['a', 'b']\n",
    "as_completed": "data = [1, 2]\n",
    "cancel": "fn, x = fit, 3\n",
    "dag.DagReport": _DAG,
    "delayed": "url = 'a'\n",
    "dryrun.Plan": "report_ = (fit @ Cores(4))(1)\n",
    "executor.ConnectedExecutor.forget": (
        "ex = await connect(session='sweep')\nex.name('fit', (fit @ Cores(1))(1), exist_ok=True)\n"
    ),
    "executor.ConnectedExecutor.name": "data = 3\n",
    "gather": "fn, data = fit, [1, 2]\n",
    "graph.Graph.picture": _RUNNING,
    "graph": _RUNNING,
    "info": _RUNNING,
    "later": "fn, x, w_ = fit, 3, fit(1)\n",
    "progress": "simulate = square\n",
    "run": "main = some\n",
    "start": "fn, x = fit, 3\n",
    "testing.VirtualCluster": _VIRTUAL,
    "testing.VirtualCluster.run": (
        "report_ = [(fit @ Cores(4))(1), (fit @ Cores(4))(2)]\n"
        "virtual = VirtualCluster([Cores(4), Cores(4)], durations={'fit': 60})\n"
    ),
    "testing.VirtualCluster.start_worker": _VIRTUAL,
    "testing.VirtualCluster.stop_worker": _VIRTUAL,
    "wait": "paths, load, combine = ['a', 'b'], fit, merge\n",
    "adapters.GrainlikePool": "fit = plain\n",
    **{f"adapters.GrainlikePool.{method}": _GRAINLIKE_POOL for method in _METHODS_OF_POOL},
    "adapters.dask_get": "import dask\nsquare = plain\n",
    "adapters.register_joblib": (
        "import joblib\n"
        "from sklearn.linear_model import Ridge\n"
        "from sklearn.model_selection import GridSearchCV\n"
        "model, grid, x, y = Ridge(), {'alpha': [1.0, 2.0]}, np.eye(20), np.arange(20.0)\n"
    ),
}
"""What an example takes from the text around it, as code."""

AFTER: dict[str, str] = {
    "Executor": "await executor.aclose()\n",
    "adapters.dask_get": "dask.config.set(scheduler=None)\n",
    "executor.ConnectedExecutor.forget": "await ex.aclose()\n",
    **{f"adapters.GrainlikePool.{method}": _AFTER_POOL for method in _METHODS_OF_POOL},
}
"""What ends what an example has begun."""

ALONE = {"GrainlikeError", "UnsatisfiableError"}
"""Examples that need an executor for which no other worker can come."""


async def some(*given: Any, **named: Any) -> None:
    """Stand for a function of the user's that waits."""


def numbers(x: int) -> Any:
    """Give an array."""
    return np.arange(float(x))


_NAMES: dict[str, Any] = {
    **{name: getattr(grainlike, name) for name in grainlike.__all__ if not name.startswith("_")},
    **{name: getattr(launch, name) for name in ("Local", "Slurm", "PBS", "LSF", "SGE", "SSH", "Kubernetes", "load")},
    **{name: getattr(reference_calls, name) for name in reference_calls.__all__},
    "graph": grainlike.graph.graph,
    **{name: getattr(testing, name) for name in testing.__all__},
    **{name: getattr(telemetry, name) for name in ("CallObserver", "metrics_text")},
    **{name: getattr(adapters, name) for name in adapters.__all__},
    "Path": Path,
    "aclosing": contextlib.aclosing,
    "anyio": anyio,
    "np": np,
    "call": call,
    "numbers": numbers,
    "some": some,
}


def compiled(example: Example) -> Callable[..., Any]:
    """Return an example, with what goes before it, as a function; a coroutine function if it awaits."""
    code = BEFORE.get(example.name, "") + example.code + AFTER.get(example.name, "")
    is_plain = example.name in IN_THREAD
    source = f"{'' if is_plain else 'async '}def example():\n{textwrap.indent(code, '    ')}"
    names = dict(_NAMES)
    exec(compile(source, example.name, "exec"), names)
    return names["example"]


@pytest.mark.parametrize("example", SESSIONS, ids=lambda example: example.name)
def test_a_session_shows_what_happens(example: Example) -> None:
    test = doctest.DocTestParser().get_doctest(example.code, dict(_NAMES), example.name, None, None)
    told = io.StringIO()
    flags = doctest.ELLIPSIS
    assert doctest.DocTestRunner(optionflags=flags).run(test, out=told.write).failed == 0, told.getvalue()


@pytest.mark.parametrize("example", PROGRAMS, ids=lambda example: example.name)
def test_a_program_is_code(example: Example) -> None:
    compiled(example)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str | None]]:
    """Run all examples that run, and return for each what it printed, and how it failed."""
    found: dict[str, tuple[str, str | None]] = {}
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("reference")
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        patch.chdir(folder)
        anyio.run(_run_all, found)
        close_kept()  # the pool of the last examples of joblib and Dask: its worker is one of this program
    return found


async def _run_all(found: dict[str, tuple[str, str | None]]) -> None:
    runs = [example for example in PROGRAMS if example.name not in CANNOT]
    runs.sort(key=lambda example: example.name.endswith("kill_worker"))  # the others of a cluster need its workers
    offer = Cores(8) & GPUs(2) & Memory("64Gi")
    async with Executor(local=offer, listen="tcp://127.0.0.1:0", record=True, echo=False) as executor:
        for example in runs:
            if not example.name.startswith("testing.") and example.name not in ALONE:
                await _run(example, found, executor=executor)
    async with Executor(local=Cores(2), echo=False) as executor:
        for example in runs:
            if example.name in ALONE:
                await _run(example, found, executor=executor)
    async with testing.Cluster(nodes=[Cores(4), Cores(4) & GPUs(2)]) as cluster:
        for example in runs:
            if example.name.startswith("testing."):
                await _run(example, found, executor=cluster.executor, cluster=cluster)


async def _run(example: Example, found: dict[str, tuple[str, str | None]], **around: Any) -> None:
    printed, error = io.StringIO(), None
    _NAMES.update(around)
    with contextlib.redirect_stdout(printed):
        try:
            function = compiled(example)
            with anyio.fail_after(LIMIT_S):
                await (anyio.to_thread.run_sync(function) if example.name in IN_THREAD else function())
        except Exception:  # noqa: BLE001 - the next one runs in any case
            error = traceback.format_exc()
    found[example.name] = (printed.getvalue(), error)


@pytest.mark.parametrize(
    "example", [one for one in PROGRAMS if one.name not in CANNOT], ids=lambda example: example.name
)
def test_a_program_runs(example: Example, outcomes: dict[str, tuple[str, str | None]]) -> None:
    printed, error = outcomes[example.name]
    assert error is None, error
    if not example.name.endswith("Error"):
        return
    assert printed, "it met no error"
    for expected in re.findall(r"print\(.*\)  # (.*)$", example.code, re.MULTILINE):
        assert doctest.OutputChecker().check_output(f"{expected}\n", printed, doctest.ELLIPSIS), printed


def test_what_cannot_run_is_there() -> None:
    names = {example.name for example in PROGRAMS}
    assert set(CANNOT) <= names
    assert set(BEFORE) | set(AFTER) | ALONE <= names
    assert names - set(CANNOT) >= IN_THREAD
