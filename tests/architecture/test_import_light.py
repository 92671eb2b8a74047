"""`import grainlike` is nearly free: it loads requests and errors, and nothing that waits, pickles or draws."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HEAVY = {
    "anyio",
    "asyncio",
    "cloudpickle",
    "cryptography",
    "dill",
    "multiprocessing",
    "numpy",
    "rich",
    "socket",
    "ssl",
    "subprocess",
    "trio",
    "typer",
    "uvloop",
}

SELDOM = {
    "grainlike.calls",
    "grainlike.executor._connected",
    "grainlike.dag._dag",
    "grainlike.dashboard",
    "grainlike.head.server._endpoint",
    "grainlike.head._recorder",
    "grainlike.graph.drawing._picture",
    "grainlike.net._listener",
    "grainlike.observe",
    "grainlike.payload._identity",
}
"""What a program that only awaits calls on its own cores has no use for."""


def loaded_by(statement: str) -> set[str]:
    """The modules that `statement` loads in a fresh interpreter, beside those that Python itself brings."""
    program = f"import sys\nbefore = set(sys.modules)\n{statement}\nprint(*sorted(set(sys.modules) - before))"
    # -I and -S: no site-packages start-up file of the environment may load modules in our name.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {[str(ROOT), *site_packages()]!r}\n{program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())  # behind what the statement has printed


def site_packages() -> list[str]:
    return [path for path in sys.path if path.endswith("site-packages")]


def test_import_grainlike_loads_nothing_heavy() -> None:
    loaded = loaded_by("import grainlike")
    assert "grainlike.errors" in loaded
    assert {module for module in loaded if module.split(".")[0] in HEAVY} == set()


def test_import_grainlike_binds_no_other_room() -> None:
    rooms = {module.split(".")[1] for module in loaded_by("import grainlike") if module.startswith("grainlike.")}
    assert rooms <= {"_later", "_version", "context", "errors", "resources"}


UNREQUIRED = {"cryptography", "pydantic", "rich", "typer"}
"""Libraries that are installed with grainlike, and that a first job does not load (docs/start/install.md)."""

FIRST_JOBS = {
    "process": f"""
def loaded():
    return set(sys.modules)
in_runner = g.run(lambda: (g.delayed(loaded) @ g.Cores(1))(), local=g.Cores(1))
assert "grainlike_worker.runner.process._runner" in in_runner
assert in_runner.isdisjoint({UNREQUIRED!r}), in_runner
""",
    "coroutine": """
async def loaded():
    return set(sys.modules)
in_loop = g.run(lambda: (g.delayed(loaded) @ g.Cores(1))(), local=g.Cores(1))
assert "grainlike_worker.runner.loop._runner" in in_loop
""",
}
"""Programs of one job of a function of theirs: in a process of its own, or a coroutine in the embedded worker."""


def loaded_by_program(program: str) -> set[str]:
    """The modules that a program loads, with those of the worker's daemon, which is embedded."""
    imports = "import grainlike as g, grainlike_worker.__main__"
    return loaded_by(f"sys.path.append({str(ROOT / 'worker')!r})\n{imports}\n{program}")


def test_a_call_without_resources_loads_little() -> None:
    loaded = loaded_by_program("g.run(lambda: g.delayed(abs)(1), local=g.Cores(1))")
    assert "grainlike.net._tls" in loaded
    assert loaded.isdisjoint(SELDOM | UNREQUIRED)


@pytest.mark.parametrize("kind", FIRST_JOBS)
def test_a_first_job_loads_no_library_that_only_commands_and_certificates_need(kind: str) -> None:
    loaded = loaded_by_program(FIRST_JOBS[kind])
    assert "grainlike.payload" in loaded
    assert loaded.isdisjoint(SELDOM | UNREQUIRED)


def test_who_makes_certificates_loads_cryptography() -> None:
    assert "cryptography" in loaded_by("from grainlike.net import make_credentials\nmake_credentials('c1')")


def test_a_worker_loads_nothing_of_the_side_of_a_head() -> None:
    loaded = loaded_by(f"sys.path.append({str(ROOT / 'worker')!r})\nimport grainlike_worker.__main__")
    assert "grainlike.scheduler.node._scheduler" in loaded
    assert "grainlike.scheduler._head" not in loaded
    assert not [
        module for module in loaded if module.startswith(("grainlike.scheduler.planning", "grainlike.scheduler.values"))
    ]


def test_a_worker_loads_nothing_that_runs_coroutines_or_that_clients_ask() -> None:
    loaded = loaded_by(f"sys.path.append({str(ROOT / 'worker')!r})\nimport grainlike_worker.__main__")
    assert "grainlike_worker.daemon._runners" in loaded
    assert "grainlike.net._resumable_session" in loaded
    assert not [module for module in loaded if module.startswith("grainlike_worker.runner.loop")]
    assert loaded.isdisjoint({f"grainlike.wire.{name}" for name in ("_fleet", "_history", "_live", "_questions")})
    assert loaded.isdisjoint({"secrets", "hashlib"})


PROCESSES = {
    "dill",  # this function is known by its name
    "grainlike.net._address",
    "grainlike.net._dial",
    "grainlike_worker.daemon._spawn",
    "json",
    "shutil",
    "tempfile",
}
"""What only runners in processes, and those who come over a socket, have a use for."""


def test_an_embedded_worker_of_coroutines_loads_nothing_for_processes_and_sockets() -> None:
    block = (
        "import anyio.lowlevel, asyncio, grainlike as g\n"
        "async def main():\n"
        "    async with g.Executor(local=g.Cores(1)):\n"
        "        await (g.delayed(anyio.lowlevel.checkpoint) @ g.Cores(1))()\n"
        "asyncio.run(main())"
    )
    loaded = loaded_by(f"sys.path.append({str(ROOT / 'worker')!r})\n{block}")
    assert "grainlike_worker.runner.loop._runner" in loaded
    assert loaded & PROCESSES == set()


def test_the_keeper_whom_the_first_runner_waits_for_loads_no_event_loop() -> None:
    loaded = loaded_by(f"sys.path.append({str(ROOT / 'worker')!r})\nimport grainlike_worker.keeper._keeper")
    assert "grainlike_worker.runner.process._runner" in loaded
    assert loaded.isdisjoint(
        {
            "anyio",
            "asyncio",
            "ssl",
            "subprocess",
            "dill",
            "cloudpickle",
            "shutil",
            "tempfile",
            "hashlib",
            "random",
            "json",
        }
    )
    assert {module for module in loaded if module.startswith("grainlike.net.")} == {"grainlike.net._uplink"}
    assert loaded.isdisjoint({f"grainlike.wire.{name}" for name in UNTOLD})


UNTOLD = {
    *("_connection", "_data", "_fleet", "_handshake", "_history", "_live", "_messages", "_metrics", "_questions"),
    *("_resend_buffer", "_rows", "_window"),
}
"""Modules of messages that no runner is told, or tells."""


SERVED = f"""
import gc, runpy, sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "worker")!r}]
collected = []
gc.callbacks.append(lambda phase, info: collected.append(phase))
import anyio
del collected[:]
anyio.run = lambda *_, **__: print(len(collected), gc.isenabled(), gc.get_freeze_count() > 0) or 0
sys.argv = ["worker", "--head", "tcp://127.0.0.1:1"]
runpy.run_module("grainlike_worker", run_name="__main__")
"""


def test_a_worker_collects_garbage_once_it_serves_and_not_while_its_modules_are_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", SERVED], capture_output=True, text=True, check=True)
    collections, *serves = done.stdout.split()
    assert int(collections) < 20  # there are six times as many while modules are loaded
    assert serves == ["True", "True"]


UNASKED = {
    "anyio.lowlevel",
    "asyncio",
    "ctypes",
    "pickle",
    "rich.cells",
    "tomllib",
    "grainlike.client._connection",
    "pydantic",
    "rich.console",
    "rich.table",
    "email",
    "cryptography",
    "dill",
    "grainlike.dialects",
    "grainlike.head",
    "grainlike.executor",
    "grainlike.eventloop",
    "grainlike.graph",
    "grainlike.jobs._records",
    "grainlike.launch",
    "grainlike.observe",
    "grainlike.scheduler._records",
}
"""Modules for which commands that ask a head once have no use: an event loop and what runs in one, tables of letters of
other languages, pickles, and what typer and its help load if they may. Those that count what a head remembers load what
counts when they have it.
"""


def loaded_by_command(line: list[str], directory: Path) -> set[str]:
    """The modules that a command loads where no head is."""
    setup = f"import os\nos.environ['XDG_STATE_HOME'] = {str(directory)!r}\nos.chdir({str(directory)!r})"
    setup += f"\nsys.path.append({str(ROOT / 'worker')!r})"
    return loaded_by(f"{setup}\nfrom grainlike.cli import main\nmain({line!r})")


@pytest.mark.parametrize(
    "line",
    [
        *(
            ["ls"],
            ["jobs"],
            ["pools"],
            ["blocks"],
            ["scale", "4"],
            ["head", "status"],
            ["completion", "values", "job"],
            ["explain", "1"],
        ),
        *(["cancel", "1"], ["logs", "-f", "1"], ["jobs", "--most", "5", "--json"]),
        *(["jobs", "--failed"], ["report"], ["trace", "-o", "trace.json"]),
    ],
)
def test_commands_that_ask_a_head_load_no_more_than_that_takes(line: list[str], tmp_path: Path) -> None:
    loaded = loaded_by_command(line, tmp_path)
    assert "grainlike.client._blocking" in loaded
    assert loaded & UNASKED == set()


def test_a_look_at_what_would_keep_a_worker_away_loads_no_event_loop(tmp_path: Path) -> None:
    loaded = loaded_by_command(["doctor"], tmp_path)
    assert "grainlike.net._blocking" in loaded
    assert loaded & UNASKED == set()


def test_a_simulation_loads_no_event_loop(tmp_path: Path) -> None:
    loaded = loaded_by_command(["simulate", "--jobs", "2"], tmp_path)
    assert "grainlike.simulation" in loaded
    assert loaded & {"asyncio", "anyio", "ssl", "grainlike.executor"} == set()
    assert (
        loaded & {"html", "json", "pickle", "grainlike.graph", "grainlike.observe._span", "grainlike.payload"} == set()
    )


UNPLANNED = {"asyncio", "msgspec", "ssl", "grainlike.client", "grainlike.net._access", "grainlike.wire"}
"""Modules for which a command that only shows what it would submit has no use."""


def test_a_dry_pool_is_shown_before_what_asks_the_batch_system_is_loaded(tmp_path: Path) -> None:
    show = f"""
import contextlib, io, os
os.environ["XDG_STATE_HOME"] = {str(tmp_path)!r}
sys.modules["anyio"] = None  # as if it were not installed
from grainlike.cli.pools._choice import pool_for, show_dry
with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(ModuleNotFoundError):
    show_dry(pool_for("local", {{}}), as_json=False)
assert shown.getvalue().startswith("$ ")
"""
    loaded = loaded_by(show)
    assert "grainlike.launch._other_pools" in loaded
    assert loaded & UNPLANNED == set()


def test_settings_without_pools_load_nothing_of_pools(tmp_path: Path) -> None:
    loaded = loaded_by_command(["config", "show"], tmp_path)
    assert "grainlike.settings._merge" in loaded
    assert loaded & {"grainlike.dialects", "grainlike.launch._registry", "msgspec"} == set()


def test_what_shows_a_head_loads_no_graph() -> None:
    for screen in ("grainlike.dashboard._server", "grainlike.top._app"):
        loaded = loaded_by(f"import {screen}")
        assert loaded & {"grainlike.graph", "grainlike.jobs._job", "grainlike.payload._values"} == set(), screen
    assert "grainlike.observe._usage" not in loaded_by("import grainlike.dashboard._server")


def test_a_screen_that_has_no_terminal_loads_nothing_that_draws_one(tmp_path: Path) -> None:
    loaded = loaded_by_command(["top"], tmp_path)
    assert "grainlike.cli._commands_look" in loaded
    assert loaded & {"anyio", "textual", "msgspec", "grainlike.cli.screens", "grainlike.client"} == set()


def test_a_head_without_a_journal_loads_nothing_that_writes_one() -> None:
    loaded = loaded_by("from grainlike.head.durable import HeadDaemon\nHeadDaemon('tcp://127.0.0.1:0')")
    assert "grainlike.head._head" in loaded
    unused = {"grainlike.head._recorder", "grainlike.journal", "grainlike.observe", "grainlike.telemetry._metrics"}
    assert loaded & unused == set()


OF_PROGRAMS = {
    "grainlike.cli._head",
    "grainlike.cli.heads._log",
    "grainlike.client",
    "grainlike.engine._explain",
    "grainlike.engine._local_calls",
    "grainlike.engine._streams",
    "grainlike.graph._delayed",
    "grainlike.graph._gather",
    "grainlike.graph._questions",
    "grainlike.jobs._own_arguments",
    "grainlike.scheduler._scale_hint",
    "logging.handlers",
}
"""Modules that run a program's graph, answer later questions, or stop a head: one that starts needs none of them."""

HEAD_STARTS = 265
"""The most modules of ours that are loaded when a head in the foreground begins to listen, without certificates."""


def test_a_head_that_starts_loads_no_more_than_it_did() -> None:
    loaded = loaded_by("import grainlike.cli._app\nfrom grainlike.cli.heads._start import start_head")
    assert "grainlike.head.server._accept" in loaded
    assert loaded & OF_PROGRAMS == set()
    assert len([module for module in loaded if module.startswith("grainlike")]) <= HEAD_STARTS


def test_the_demonstration_says_what_it_does_before_it_loads_what_does_it(tmp_path: Path) -> None:
    show = """
import contextlib, io, sys
from importlib.machinery import ModuleSpec
sys.modules["sklearn"] = sklearn = type(sys)("sklearn")  # as if it were installed
sklearn.__spec__ = ModuleSpec("sklearn", None)
sys.modules["grainlike.cli.demo._stages"] = None  # and what runs the demonstration were not
from grainlike.cli import main
with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(ModuleNotFoundError):
    main(["demo", "--quick"])
assert shown.getvalue() == "Model selection on handwritten digits: 6 candidates in 5 folds each, 30 fits\\n", shown
"""
    loaded = loaded_by(f"import os\nos.chdir({str(tmp_path)!r})\n{show}")
    assert "grainlike.cli.demo" in loaded
    assert (
        loaded & {"anyio", "asyncio", "msgspec", "pydantic", "rich", "grainlike.executor", "grainlike.graph"} == set()
    )


def test_commands_without_a_head_load_nothing_that_connects_to_one() -> None:
    loaded = loaded_by("import grainlike.cli._submit")
    assert "grainlike.executor._executor" in loaded
    assert loaded & {"grainlike.client", "grainlike.executor._connected"} == set()


def test_a_list_of_what_can_be_measured_loads_nothing_that_runs_jobs() -> None:
    find = f"sys.path.append({str(ROOT / 'benchmarks')!r})"
    loaded = loaded_by(f"{find}\nfrom grainlike.cli import main\nmain(['bench', '--list'])")
    assert "grainlike_bench.compare.systems" in loaded
    assert loaded & {"grainlike.executor", "grainlike.engine", "importlib.metadata"} == set()


UNDRAWN = {"attr", "markdown_it", "pygments", "rich.markdown", "rich.pretty", "rich.syntax", "rich.traceback"}
"""Libraries that typer loads for help, and that draw none of ours."""


@pytest.mark.parametrize(
    "line",
    [
        *([], ["--help"], ["head", "--help"], ["worker", "start", "--help"]),
        *(["nosuch"], ["ls", "--nosuch"], ["up", "slurm", "--dry"], ["simulate", "--request", "x"]),
    ],
)
def test_help_and_wrong_usage_load_no_library_that_draws_none_of_it(line: list[str], tmp_path: Path) -> None:
    loaded = loaded_by_command(line, tmp_path)
    assert {"rich.panel", "typer.rich_utils"} <= loaded
    assert loaded & UNDRAWN == set()


UNSUBMITTED = {
    "ctypes",
    "html",
    "secrets",
    "grainlike.backends",
    "grainlike.cache._store",
    "grainlike.head",
    "grainlike.observe",
    "grainlike.resources._records",
    "grainlike.scheduler._records",
}
"""Modules that a program connected to a head elsewhere has no use for: a head of its own, above all."""


def test_who_connects_to_a_head_loads_none(tmp_path: Path) -> None:
    loaded = loaded_by_command(["submit", "-r", "cores=1", "--", "true"], tmp_path)
    assert "grainlike.client._remote_head" in loaded
    assert loaded & UNSUBMITTED == set()


EVERYDAY = [
    ["ls", "--watch=2", "--head", "tcp://127.0.0.1:1", "--insecure"],
    ["jobs", "--failed", "--name", "a*", "--since", "2h"],
    ["report", "--name", "a*"],
    ["trace", "-o", "trace.json"],
    ["sessions", "end", "sweep"],
    ["worker", "drain", "n1", "n2"],
    ["head", "wanted", "cores=4"],
    ["scale", "cpu", "4"],
    ["blocks", "log", "cpu-1"],
    ["worker", "start", "--log-level", "error", "--resources", "cores=1", "--insecure"],
    ["submit", "--head", "tcp://127.0.0.1:1", "--insecure", "-r", "cores=1", "--", "true"],
]


def test_no_everyday_command_loads_a_library_of_schemas(tmp_path: Path) -> None:
    run = f"""
import os, sys
os.environ["XDG_STATE_HOME"] = {str(tmp_path)!r}
sys.path.append({str(ROOT / "worker")!r})
from grainlike.cli import main
for line in {EVERYDAY!r}:
    assert main(line) == 3, line  # no head is there
    assert "pydantic" not in sys.modules, line
"""
    assert "grainlike.cli._ask" in loaded_by(run)


OWN = {
    "--version": 32,
    "--help": 39,
    "ls": 88,
    "pools": 89,
    "config show": 43,
    "cache ls": 57,
    "simulate --jobs 2": 157,
    "submit -r cores=1 -- true": 214,
    "worker start --resources cores=1": 210,
}
"""The most modules of ours that a command may load where no head is. Whoever lowers a number lowers it here."""


@pytest.mark.parametrize("line", OWN)
def test_a_command_loads_no_more_modules_of_ours_than_it_did(line: str, tmp_path: Path) -> None:
    loaded = loaded_by_command(line.split(), tmp_path)
    ours = [module for module in loaded if module.partition(".")[0] in {"grainlike", "grainlike_worker"}]
    assert len(ours) <= OWN[line], sorted(ours)


def test_a_key_that_is_pressed_loads_no_parser() -> None:
    run = "from grainlike.cli import main\nmain(['completion', 'values', 'resource'])"
    assert not [module for module in loaded_by(run) if module.split(".")[0] == "typer"]
