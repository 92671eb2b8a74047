"""Functions, values and exceptions to a fresh interpreter and back, from every kind of `__main__`."""

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from limits import LIMIT_S

HERE = Path(__file__).parent / "journeys"
ROOT = Path(__file__).parents[3]
SOURCE = (HERE / "journey.py").read_text()
CASES = [node.name[5:] for node in ast.parse(SOURCE).body if getattr(node, "name", "").startswith("case_")]

# What a notebook does: cells compiled one by one into `__main__`, their lines known to linecache alone.
NOTEBOOK = """
import ast, linecache, sys
text = open(sys.argv[1]).read()
for number, node in enumerate(ast.parse(text).body):
    name, cell = f"<cell {number}>", ast.get_source_segment(text, node, padded=True)
    cell = "\\n".join(["@" + ast.unparse(d) for d in getattr(node, "decorator_list", [])] + [cell])
    linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
    exec(compile(cell, name, "exec"), globals())
"""


def interpreter(*command: str, stdin: str = "") -> str:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}", "PYTHONHASHSEED": "1"}
    command = (sys.executable, *command)
    done = subprocess.run(
        command, input=stdin, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def outcomes(way: str) -> dict[str, str]:
    ways = {
        "script": lambda: interpreter(str(HERE / "journey.py")),
        "command": lambda: interpreter("-c", SOURCE),
        "stdin": lambda: interpreter("-", stdin=SOURCE),
        "notebook": lambda: interpreter("-c", NOTEBOOK, str(HERE / "journey.py")),
    }
    return json.loads(ways[way]())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", ["script", "command", "stdin", "notebook"])
def test_journey(way: str, case: str) -> None:
    assert outcomes(way)[case] == "ok"


def test_what_needs_only_pickle_imports_neither_dill_nor_cloudpickle() -> None:
    text = (
        "import far, decorated; f = far.Far();"
        "assert f.call(decorated.plain, 1) == 2;"
        "assert f.call(decorated.state.__wrapped__);"
        "names = ['dill', 'cloudpickle', 'asyncio', 'numpy'];"
    )
    left = interpreter("-c", text + "print(f.call(far.loaded, *names[:1], *names[2:])); f.close()")
    assert left == "[]\n"
    alone = "import far; print(far.loaded('dill', 'cloudpickle', 'asyncio'))"
    assert interpreter("-c", alone) == "[]\n"


def test_dill_is_imported_without_changing_the_standard_pickler() -> None:
    text = (
        "import pickle; before = dict(pickle._Pickler.dispatch);"
        "from grainlike.payload import dump_function; dump_function(lambda: 1);"
        "import sys; assert 'dill' in sys.modules; print(pickle._Pickler.dispatch == before)"
    )
    assert interpreter("-c", text) == "True\n"
