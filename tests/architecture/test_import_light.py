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


def test_only_who_makes_certificates_loads_cryptography() -> None:
    embedded = "import grainlike as g, grainlike_worker.__main__\ng.run(lambda: g.delayed(abs)(1), local=g.Cores(1))"
    statement = f"sys.path.append({str(ROOT / 'worker')!r})\n{embedded}"
    loaded = loaded_by(statement)
    assert "grainlike.net._tls" in loaded
    assert loaded.isdisjoint(SELDOM)
    assert loaded.isdisjoint({"cryptography", "pydantic", "rich", "typer"})
    certificates = "from grainlike.net import make_credentials\nmake_credentials('c1')"
    assert "cryptography" in loaded_by(certificates)


def test_a_worker_loads_nothing_of_the_side_of_a_head() -> None:
    loaded = loaded_by(f"sys.path.append({str(ROOT / 'worker')!r})\nimport grainlike_worker.__main__")
    assert "grainlike.scheduler.node._scheduler" in loaded
    assert "grainlike.scheduler._head" not in loaded
    assert not [
        module for module in loaded if module.startswith(("grainlike.scheduler.planning", "grainlike.scheduler.values"))
    ]


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
    assert loaded.isdisjoint({"anyio", "asyncio", "ssl", "subprocess", "dill", "cloudpickle", "shutil", "tempfile"})
    assert {module for module in loaded if module.startswith("grainlike.net.")} == {"grainlike.net._uplink"}


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
    "grainlike.head",
    "grainlike.executor",
    "grainlike.eventloop",
    "grainlike.graph",
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
        *(["ls"], ["jobs"], ["pools"], ["head", "status"], ["completion", "values", "job"], ["explain", "1"]),
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


def test_a_list_of_what_can_be_measured_loads_nothing_that_runs_jobs() -> None:
    find = f"sys.path.append({str(ROOT / 'benchmarks')!r})"
    loaded = loaded_by(f"{find}\nfrom grainlike.cli import main\nmain(['bench', '--list'])")
    assert "grainlike_bench.compare.systems" in loaded
    assert loaded & {"grainlike.executor", "grainlike.engine", "importlib.metadata"} == set()


UNDRAWN = {"attr", "markdown_it", "pygments", "rich.markdown", "rich.pretty", "rich.syntax", "rich.traceback"}
"""Libraries that typer loads for help, and that draw none of ours."""


@pytest.mark.parametrize("line", [[], ["--help"], ["head", "--help"], ["worker", "start", "--help"]])
def test_help_loads_no_library_that_draws_none_of_it(line: list[str], tmp_path: Path) -> None:
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


def test_a_key_that_is_pressed_loads_no_parser() -> None:
    run = "from grainlike.cli import main\nmain(['completion', 'values', 'resource'])"
    assert not [module for module in loaded_by(run) if module.split(".")[0] == "typer"]
