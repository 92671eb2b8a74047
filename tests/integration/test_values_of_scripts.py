"""Values that only a script knows: classes of `__main__`, modules sent by value, proxies of managers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from limits import LIMIT_S

ROOT = Path(__file__).parents[2]

CLASSES = """
import dataclasses
from grainlike import Cores, delayed, run

@dataclasses.dataclass(slots=True)
class Point:
    x: int
    ys: list = dataclasses.field(default_factory=list)

@dataclasses.dataclass(slots=True, frozen=True)
class Frozen:
    x: int

class Slots:
    __slots__ = ("x", "unset", "__hidden")
    def __init__(self, x):
        self.x, self.__hidden = x, x
    def both(self):
        return self.x, self.__hidden

class Below(Slots):
    __slots__ = ("more", "__dict__", "__weakref__")

class One:
    __slots__ = "x"

def made(kind, x):
    value = kind.__new__(kind) if kind is One else kind(x)
    if kind is One:
        value.x = x
    return value

@delayed
def make(kind):
    value = made(kind, 3)
    assert hasattr(value, "__dict__") == (kind is Below), kind
    return value

@delayed
def change(value):
    return made(type(value), value.x + 1)

async def main():
    for kind in (Point, Frozen, Slots, Below, One):
        value = await (change @ Cores(1))(await (make @ Cores(1))(kind))
        print(kind.__name__, type(value) is kind, value.x, value.both() if hasattr(value, "both") else "")

run(main, local=Cores(1))
"""

BY_VALUE = """
import sys
import cloudpickle, helpers
from grainlike import Cores, delayed, run

cloudpickle.register_pickle_by_value(helpers)
helpers.ADDED = 10

@delayed(isolate=True)
def look(value):
    return "helpers" in sys.modules, value.x

async def main():
    print(await (delayed(helpers.add, isolate=True) @ Cores(1))(1))
    print(await (look @ Cores(1))(helpers.Value(5)))
    cloudpickle.unregister_pickle_by_value(helpers)
    print(await (look @ Cores(1))(helpers.Value(5)))

run(main, local=Cores(1))
"""

HELPERS = """
import sys
ADDED = 1
class Value:
    def __init__(self, x):
        self.x = x
def add(x):
    return x + ADDED, "helpers" in sys.modules
"""

MANAGER = """
import multiprocessing
from grainlike import Cores, delayed, run

@delayed
def early():
    return 1

@delayed
def use(queue, shared):
    queue.put("from a job")
    shared["key"] = 2
    return dict(shared)

async def main():
    await (early @ Cores(1))()  # its process is there before the manager is
    with multiprocessing.Manager() as manager:
        queue, shared = manager.Queue(), manager.dict()
        print(await (use @ Cores(1))(queue, shared), queue.get(timeout=180))
        print(await (delayed(use.__wrapped__, isolate=True) @ Cores(1))(queue, shared), queue.get(timeout=180))

if __name__ == "__main__":
    run(main, local=Cores(1))
"""


@pytest.fixture
def script(tmp_path: Path):
    def run(text: str, **files: str) -> list[str]:
        for name, content in {**files, "script": text}.items():
            (tmp_path / f"{name}.py").write_text(content)
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"}
        done = subprocess.run(
            [sys.executable, "script.py"],
            cwd=tmp_path,
            env=environment,
            text=True,
            capture_output=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def test_objects_with_slots_of_a_script_come_back(script) -> None:
    assert script(CLASSES) == [
        "Point True 4 ", "Frozen True 4 ", "Slots True 4 (4, 4)", "Below True 4 (4, 4)", "One True 4 ",
    ]  # fmt: skip


def test_a_module_that_is_registered_with_cloudpickle_goes_by_value(script) -> None:
    assert script(BY_VALUE, helpers=HELPERS) == ["(11, False)", "(False, 5)", "(True, 5)"]


def test_proxies_of_a_manager_work_in_jobs(script) -> None:
    assert script(MANAGER) == ["{'key': 2} from a job"] * 2
