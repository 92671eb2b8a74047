"""The front door, with small rooms standing in for those that it loads late."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import grainlike

ROOT = Path(grainlike.__file__).parents[1]

GRAPH_ROOM = """
Delayed = DelayedFn = Partition = Retry = delayed = gather = delayed_value = later = info = start = cancel = object()
def graph(r_):
    return ("graph of", r_)
"""
ROOMS = {
    "graph": GRAPH_ROOM,
    "executor": "Executor = connect = progress = result = run = object()",
    "dag": "Callbacks = Dag = object()",
    "maps": "amap = as_completed = replicate = wait = object()",
    "dryrun": "dry_run = object()",
    "pool": "ResourcePool = object()",
    "backends": "CeleryBackend = DaskBackend = ProcessBackend = RayBackend = ThreadBackend = object()",
}


@pytest.fixture
def check(tmp_path):
    """Run code in a fresh interpreter whose late rooms are the stand-ins above."""
    for room, code in ROOMS.items():
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text(code)

    def run(code: str) -> None:
        head = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import grainlike"
        stand_in = f"grainlike.__path__.insert(0, {str(tmp_path)!r})"
        done = subprocess.run(
            [sys.executable, "-c", f"{head}\n{stand_in}\n{code}"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    return run


def test_import_loads_no_late_room_and_nothing_heavy(check):
    check("""
heavy = {"grainlike.graph", "grainlike.executor", "anyio", "asyncio", "dill", "cloudpickle", "msgspec"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
""")


def test_every_public_name_can_be_loaded_and_listed(check):
    check("""
for name in grainlike.__all__:
    getattr(grainlike, name)
    assert name in dir(grainlike)
from grainlike import *
assert Cores(2).N == 2 and run is sys.modules["grainlike.executor"].run
""")


def test_a_late_name_is_listed_before_it_is_loaded(check):
    check('assert "delayed" in dir(grainlike) and "grainlike.graph" not in sys.modules')


def test_an_unknown_name_is_an_attribute_error(check):
    check("""
try:
    grainlike.nothing
except AttributeError as error:
    assert "nothing" in str(error)
else:
    raise SystemExit("no error")
""")


AWAIT = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import asyncio
from grainlike import delayed
assert "grainlike.executor" not in sys.modules
async def main():
    return await delayed(abs)(-3)
assert asyncio.run(main()) == 3
assert "grainlike.executor" in sys.modules
"""


def test_a_name_of_the_graph_loads_no_executor_until_a_placeholder_needs_it():
    done = subprocess.run([sys.executable, "-c", AWAIT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "first",
    [
        "pass",
        "import grainlike.graph",
        "from grainlike.graph import delayed",
        "from grainlike import delayed",
        "import grainlike.executor",
        "from grainlike import graph",
    ],
)
def test_graph_is_the_function_and_the_room_whatever_was_imported_first(check, first):
    check(f"""
{first}
from grainlike import graph
assert graph(1) == ("graph of", 1)
assert grainlike.graph(2) == ("graph of", 2)
import grainlike.graph as room
from grainlike.graph import gather
assert room.gather is gather and room is sys.modules["grainlike.graph"]
""")


def test_package_and_graph_travel_by_name(check):
    check("""
import pickle, dill, cloudpickle
from grainlike import graph
for pickler in (pickle, dill, cloudpickle):
    assert pickler.loads(pickler.dumps((grainlike, graph))) == (grainlike, graph)
""")


def test_type_checkers_see_the_names_that_are_loaded_late():
    tree = ast.parse(Path(grainlike.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    assert seen == grainlike._LAZY


def test_all_is_complete():
    bound = {name for name in vars(grainlike) if not name.startswith("_")}
    rooms = {"context", "errors", "resources", *(p.stem for p in Path(grainlike.__file__).parent.iterdir())}
    modules = {"os", "sys", "import_module", "ModuleType", "TYPE_CHECKING"}
    assert bound - rooms - modules | set(grainlike._LAZY) | {"__version__"} == set(grainlike.__all__)


def test_every_error_is_public():
    assert set(grainlike.errors.__all__) <= set(grainlike.__all__)


def test_version_is_the_distributions():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["version"]
    assert f'"{grainlike.__version__}"' in (ROOT / settings["path"]).read_text()


def test_rooms_have_their_late_names_and_no_others() -> None:
    program = """
import sys
import grainlike.dag as room
assert "grainlike.dag._dag" not in sys.modules
from grainlike.dag import Dag
assert room.Dag is Dag and vars(room)["Dag"] is Dag and "grainlike.dag._dag" in sys.modules
try:
    room.Daag
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "module 'grainlike.dag' has no attribute 'Daag'\n"
