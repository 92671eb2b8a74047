"""Everything that a public signature mentions is on a page, and every time and size says its unit.

Both are found from annotations, from those of `grainlike.__all__` on, and not from a list.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any, get_args, get_origin

import pytest
from api_pages import parameters_of, shown_members, shown_objects, signed_classes
from reference import SHOWN, entries_of

OBJECTS = shown_objects()
INTERNAL = {
    "Backend": "docs/engines.md has the interface of an engine",
    "BaseResolver": "what executors have in common, for other rooms",
    "Dialect": "a pool's batch system, for other rooms",
    "Function": "what `delayed` keeps of a function",
    "HeadClient": "what `async with call()` gives, to be handed on",
    "Terms": "parts of a request that are no amounts, for other rooms",
    "NotGiven": "stands for an argument that is not given",
    "EndedJobState": "what a report keeps of a job",
}
"""Classes that public annotations mention and that have no page, with the reason."""


@cache
def _names_of(module: ModuleType) -> dict[str, Any]:
    """Return the names of a module, those too that it imports for type checkers alone."""
    names = dict(vars(module))
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            imports = [one for one in node.body if isinstance(one, ast.Import | ast.ImportFrom)]
            exec(compile(ast.Module(imports, []), module.__name__, "exec"), names)
    return names


def _classes_in(annotation: Any, module: ModuleType) -> Iterator[type]:
    """Give the classes of grainlike that an annotation names."""
    if isinstance(annotation, str):
        for word in re.findall(r"[A-Za-z_]\w*", annotation):
            named = _names_of(module).get(word)
            yield from () if isinstance(named, str) else _classes_in(named, module)
    elif get_origin(annotation) not in (None, annotation):  # that of `Generic` is itself
        for part in (get_origin(annotation), *get_args(annotation)):
            yield from _classes_in(part, module)
    elif isinstance(annotation, type) and annotation.__module__.startswith("grainlike"):
        yield annotation


def _of_function(function: Any) -> Iterator[type]:
    signature, module = inspect.signature(function), sys.modules[inspect.unwrap(function).__module__]
    for annotation in [*(one.annotation for one in signature.parameters.values()), signature.return_annotation]:
        yield from _classes_in(annotation, module)


def _mentioned(name: str) -> Iterator[type]:
    """Give the classes that annotations of something on a page mention: of parameters, results, fields and bases."""
    found = OBJECTS[name]
    if not isinstance(found, type):
        yield from _of_function(found) if inspect.isfunction(found) else ()
        return
    for kind in found.__mro__:
        if kind.__module__.startswith("grainlike"):
            module = sys.modules[kind.__module__]
            annotations = {key: text for key, text in inspect.get_annotations(kind).items() if not key.startswith("_")}
            for annotation in [*annotations.values(), *getattr(kind, "__orig_bases__", ())]:
                yield from _classes_in(annotation, module)
    if f"grainlike.{name}" in signed_classes() and inspect.isfunction(vars(found).get("__init__")):
        yield from _of_function(found.__init__)
    for member in shown_members(name, found):
        value = SHOWN.get(f"{name}.{member}")
        value = value.fget if isinstance(value, property) else value
        yield from _of_function(value) if inspect.isfunction(value) else ()


@pytest.mark.parametrize("name", OBJECTS)
def test_what_a_signature_mentions_is_on_a_page(name: str) -> None:
    shown = [found for found in OBJECTS.values() if isinstance(found, type)]
    inherited = {base for found in shown for base in found.__mro__[1:]}
    missing = {kind.__name__ for kind in _mentioned(name) if kind not in shown and kind not in inherited}
    assert missing <= set(INTERNAL), f"on no page of the reference: {missing - set(INTERNAL)}"


def test_records_are_found_from_annotations() -> None:
    found = {kind.__name__ for name in OBJECTS for kind in _mentioned(name)}
    assert set(INTERNAL) <= found, set(INTERNAL) - found
    assert {"Plan", "PlannedJob", "JobReport", "Receipt", "JobInfo", "CallEnded", "LogLine", "BlockRow"} <= found


TIMES = re.compile(
    r"(?:\w+_)?(?:s|seconds|at|wait|timeout|patience|walltime|grace|margin|idle|join|began|ended|deadline|delay|every)"
)
SIZES = re.compile(r"(?:\w*memory|size|store|scratch|stored|spilled|moved|relayed|sent|fetched|peak|peak_rss|asked)")
UNIT_OF_TIME = re.compile(r"\bseconds?\b|\bs\b|time\.time|time\.monotonic|\bhours\b")
UNIT_OF_SIZE = re.compile(r"\bbytes?\b|[0-9][KMGT]i?\b")
_PURE = {"amount", "cores_busy", "cost", "costs", "max_imbalance", "peak_utilization", "share", "size", "utilisation"}
"""Numbers with a fraction that have no unit, or that of what they count."""


def _numbers() -> Iterator[tuple[str, str, str]]:
    """Give (name, parameter, annotation) of each number that the reference shows."""
    for name, found in SHOWN.items():
        if isinstance(found, type):
            try:
                parameters = parameters_of(found)
            except (TypeError, ValueError):
                continue
            annotations = {k: v for kind in found.__mro__ for k, v in inspect.get_annotations(kind).items()}
        elif inspect.isfunction(found):
            parameters, annotations = list(inspect.signature(found).parameters.values()), {}
        else:
            continue
        for one in parameters:
            annotation = str(annotations.get(one.name, one.annotation))
            if not one.name.startswith("_") and re.search(r"\b(float|int)\b", annotation):
                yield name, one.name, annotation


NUMBERS = list(_numbers())


def _said_of(name: str, parameter: str) -> str:
    """Return what a docstring says of a parameter: its entry, or all of a docstring without entries."""
    found = SHOWN[name]
    chain = found.__mro__ if isinstance(found, type) else [found]
    entries = {key: text for one in reversed(chain) if one.__doc__ for key, text in entries_of(one).items()}
    key = "own_script" if parameter == "script" else parameter
    return entries.get(key) or inspect.getdoc(found) or ""


@pytest.mark.parametrize(
    ("name", "parameter"),
    [(name, key) for name, key, kind in NUMBERS if TIMES.fullmatch(key) and "float" in kind],
)
def test_a_time_says_its_unit(name: str, parameter: str) -> None:
    assert UNIT_OF_TIME.search(_said_of(name, parameter)), _said_of(name, parameter)


@pytest.mark.parametrize(("name", "parameter"), [(name, key) for name, key, _ in NUMBERS if SIZES.fullmatch(key)])
def test_a_size_says_its_unit(name: str, parameter: str) -> None:
    assert name == "Resource" or UNIT_OF_SIZE.search(_said_of(name, parameter)), _said_of(name, parameter)


def test_a_number_with_a_fraction_is_a_time_or_is_known_to_be_none() -> None:
    others = {(name, key) for name, key, kind in NUMBERS if "float" in kind and not TIMES.fullmatch(key)}
    silent = {key for name, key in others if not UNIT_OF_TIME.search(_said_of(name, key)) and key not in _PURE}
    assert silent == set()


def test_times_and_sizes_are_found() -> None:
    found = {(name, key) for name, key, _ in NUMBERS}
    assert {("launch.Slurm", "walltime"), ("connect", "patience"), ("wire.BlockRow", "left_s")} <= found
