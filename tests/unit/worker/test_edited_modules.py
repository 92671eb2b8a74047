"""Modules of users' that were edited after their import: which are told, when they are looked at, and what is said."""

import importlib
import os
import sys
from math import inf
from types import SimpleNamespace

import pytest

from grainlike.payload import dump_function
from grainlike.wire import Define, FunctionSpec, Setup
from grainlike_worker.runner.common import _edited_modules
from grainlike_worker.runner.common._edited_modules import PERIOD_S, EditedModules, warning_of
from grainlike_worker.runner.common._functions import LoadedFunctions


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Make a module in a directory that is searched for modules; it is gone afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    made = []

    def make(name, text="VALUE = 1\n", folder=tmp_path):
        path = folder / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        made.append(name)
        return path

    yield make
    for name in made:
        sys.modules.pop(name, None)


def test_a_module_that_was_edited_is_told_once_and_again_when_it_was_imported_anew(module):
    before = module("edited_before")
    __import__("edited_before")
    edits = EditedModules()
    path = module("edited_later")
    __import__("edited_later")
    assert edits.look(10.0) == []
    for file in (before, path):
        file.write_text("VALUE = 22\n")
    assert edits.look(12.0) == [("edited_later", str(path))], "the other one is of the process itself"
    assert edits.look(14.0) == []


def test_a_module_in_place_of_which_there_is_a_package_is_told(module):
    edits = EditedModules()
    path = module("edited_grown")
    __import__("edited_grown")
    assert edits.look(1.0) == []
    path.unlink()
    assert edits.look(2.0) == [], "it is being written"
    module("__init__", "VALUE = 22\n", path.with_suffix(""))
    assert edits.look(3.0) == [("edited_grown", str(path))]


def test_contents_that_are_as_they_were_are_not_told(module):
    edits = EditedModules()
    path = module("edited_touched", "VALUE = 1\n")
    __import__("edited_touched")
    assert edits.look(1.0) == []
    os.utime(path, (1.0, 1.0))
    assert edits.look(2.0) == [], "it was touched"
    path.write_text("VALUE = 2\n")
    path.write_text("VALUE = 1\n")
    assert edits.look(3.0) == [], "another branch was checked out meanwhile"
    path.write_text("VALUE = 2\n")
    os.utime(path, (2.0, 2.0))
    assert edits.look(4.0) == [("edited_touched", str(path))]


def test_a_large_file_is_not_read_and_told_by_its_time(module, monkeypatch):
    monkeypatch.setattr(_edited_modules, "_READ", 4)
    edits = EditedModules()
    path = module("edited_large")
    __import__("edited_large")
    assert edits.look(1.0) == []
    os.utime(path, (1.0, 1.0))
    assert edits.look(2.0) == [("edited_large", str(path))]


def test_a_module_that_was_imported_again_since_is_told_of_what_follows(module):
    edits = EditedModules()
    paths = {name: module(name) for name in ("edited_reloaded", "edited_anew")}
    for name in paths:
        __import__(name)
    assert edits.look(1.0) == []
    for path in paths.values():
        path.write_text("VALUE = 22\n")
    importlib.reload(sys.modules["edited_reloaded"])
    del sys.modules["edited_anew"]
    __import__("edited_anew")
    assert [sys.modules[name].VALUE for name in paths] == [22, 22]
    assert edits.look(2.0) == []
    for path in paths.values():
        path.write_text("VALUE = 333\n")
    assert edits.look(3.0) == [(name, str(path)) for name, path in paths.items()]


def test_looks_at_a_slow_file_server_are_far_apart(monkeypatch):
    clock = iter([0.0, 0.05, 7.0, 7.001])
    monkeypatch.setattr(_edited_modules, "monotonic", clock.__next__)
    edits = EditedModules()
    edits.look(10.0)
    assert edits.due_at == pytest.approx(15.0)
    edits.look(20.0)
    assert edits.due_at == 20.0 + PERIOD_S


def test_names_are_looked_through_when_there_are_others(monkeypatch):
    class Modules(dict):
        looks = 0

        def __iter__(self):
            self.looks += 1
            return super().__iter__()

    edits = EditedModules()
    modules = Modules(sys.modules)
    monkeypatch.setattr(_edited_modules, "sys", SimpleNamespace(modules=modules))
    edits.note()
    assert modules.looks == 0
    modules["edited_more"] = None
    edits.note()
    edits.note()
    assert modules.looks == 1


def test_what_stands_in_for_a_module_may_fail(monkeypatch):
    class Proxy:
        @property
        def __dict__(self):
            raise RuntimeError("not now")

    edits = EditedModules()
    monkeypatch.setitem(sys.modules, "edited_proxy", Proxy())
    assert edits.look(1.0) == []


def test_what_is_away_for_a_moment_or_no_file_of_a_users_is_not_told(module, tmp_path):
    edits = EditedModules()
    path = module("edited_away")
    installed = module("edited_installed", folder=tmp_path / "site-packages")
    sys.path.insert(0, str(installed.parent))
    try:
        for name in ("edited_away", "edited_installed"):
            __import__(name)
    finally:
        sys.path.remove(str(installed.parent))
    assert edits.look(1.0) == []
    path.rename(tmp_path / "elsewhere")
    installed.write_text("VALUE = 333\n")
    assert edits.look(2.0) == []
    (tmp_path / "elsewhere").rename(path)
    assert edits.look(3.0) == []


def test_a_module_that_is_not_loaded_before_it_is_used_stays_so(monkeypatch):
    class Lazy(type(sys)):
        def __getattribute__(self, name):
            pytest.fail(f"it was asked for {name}")

    edits = EditedModules()
    monkeypatch.setitem(sys.modules, "edited_lazily", Lazy("edited_lazily"))
    assert edits.look(1.0) == []


def test_no_more_than_so_many_files_are_asked_for(module, monkeypatch):
    monkeypatch.setattr(_edited_modules, "_MOST", 2)
    edits = EditedModules()
    for number in range(4):
        module(f"edited_many_{number}")
        __import__(f"edited_many_{number}")
    edits.note()
    assert len(edits._imported) == 2


def test_a_warning_names_the_module_and_what_to_do():
    words = warning_of([("jobs", "/p/jobs.py")], "n1")
    assert words.startswith("jobs (/p/jobs.py) was edited since this process of worker n1 imported its old code")
    assert "start the worker again" in words
    assert words.endswith("cloudpickle.register_pickle_by_value(jobs)")
    many = warning_of([(f"m{number}", f"/p/m{number}.py") for number in range(5)], "n1")
    assert "m2 (/p/m2.py) and 2 more were edited" in many


def test_the_next_job_says_it_and_no_other_and_does_not_fail_for_it(module, capsys, monkeypatch):
    path = module("edited_jobs", "def one():\n    return 1\n")
    one = __import__("edited_jobs").one
    blob = dump_function(one)
    del sys.modules["edited_jobs"]
    functions = LoadedFunctions(EditedModules())
    functions.set_up(Setup("n1", []))
    functions.define(Define([FunctionSpec(1, blob.digest, "one", False, None)], []), [blob.data])
    assert functions.get(1).callable() == 1
    path.write_text("def one():\n    return 22\n")
    functions.look(5.0)
    assert functions.look_at >= 5.0 + PERIOD_S
    words = functions.warning
    assert words
    functions.warn(functions.get(1))
    assert capsys.readouterr().err.startswith("grainlike: edited_jobs (")
    functions.warning = words
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", SimpleNamespace())  # left there by another job
        functions.warn(functions.get(1))
    assert functions.warning == ""
    functions.look(7.0)
    assert functions.warning == ""


def test_a_program_is_not_told_of_its_own_modules():
    assert LoadedFunctions().look_at == inf
