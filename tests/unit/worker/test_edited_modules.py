"""Modules of users' that were edited after their import: which are told, when they are looked at, and what is said."""

import sys
from math import inf

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
    assert edits.due_at == 10.0 + PERIOD_S
    for file in (before, path):
        file.write_text("VALUE = 22\n")
    assert edits.look(12.0) == [("edited_later", str(path))], "the other one is of the process itself"
    assert edits.look(14.0) == []


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
    assert len(edits._versions) == 2


def test_a_warning_names_the_module_and_what_to_do():
    words = warning_of([("jobs", "/p/jobs.py")], "n1")
    assert words.startswith(
        "grainlike: jobs (/p/jobs.py) was edited since this process of worker n1 imported its old code"
    )
    assert "start the worker again" in words
    assert words.endswith("cloudpickle.register_pickle_by_value(jobs)")
    many = warning_of([(f"m{number}", f"/p/m{number}.py") for number in range(5)], "n1")
    assert "m2 (/p/m2.py) and 2 more were edited" in many


def test_the_next_job_says_it_and_no_other(module, capsys):
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
    assert functions.look_at == 5.0 + PERIOD_S
    assert functions.warning
    functions.warn()
    assert "edited_jobs" in capsys.readouterr().err
    functions.look(7.0)
    assert functions.warning == ""


def test_a_program_is_not_told_of_its_own_modules():
    assert LoadedFunctions().look_at == inf
