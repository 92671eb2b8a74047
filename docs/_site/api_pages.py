"""Pages of the API reference: a directive of mkdocstrings for each public name, by subject."""

import inspect
from enum import Enum
from importlib import import_module
from typing import Any

from msgspec import Struct

import grainlike

__all__ = [
    "api_pages",
    "parameters_of",
    "public_names",
    "shown_classes",
    "shown_members",
    "shown_objects",
    "signed_classes",
]

_SUBJECTS: dict[str, tuple[str, str, str]] = {
    "calls": (
        "Calls and placeholders",
        "Functions whose calls are placeholders, and what is done with placeholders.",
        (
            "delayed delayed_value Delayed DelayedFn Partition Retry GVAR gather wait replicate as_completed amap "
            "start later cancel result info graph.Info progress graph"
        ),
    ),
    "executors": (
        "Executors and pools",
        "What runs placeholders: on this machine, on workers that connect, or on a head elsewhere.",
        "run Executor connect executor.ConnectedExecutor ResourcePool run_process dry_run",
    ),
    "requests": (
        "Requests and resources",
        (
            "Amounts that a job asks for, what a node offers, and what a job was given. Memory is in bytes, "
            "times in seconds."
        ),
        "Cores GPUs Memory Node Nodes Resource Token Limit Rate WallTime Request Allocation parse",
    ),
    "graphs": (
        "Named graphs",
        "Graphs whose jobs have names: [a page with examples](../graphs.md).",
        "Dag Callbacks",
    ),
    "backends": (
        "Other engines",
        "Engines that are there already, as `Executor(backend=...)`: [a page with examples](../engines.md).",
        "ThreadBackend ProcessBackend DaskBackend RayBackend CeleryBackend",
    ),
    "launch": (
        "Pools of workers",
        "Workers from batch systems, by SSH and on this machine: [a page with examples](../launching.md).",
        (
            "launch.Local launch.Slurm launch.PBS launch.LSF launch.SGE launch.SSH launch.Kubernetes launch.load "
            "launch.WorkerPool launch.BatchPool"
        ),
    ),
    "records": (
        "Records",
        (
            "What calls return, and what functions of yours are given. Fields whose names end in `_s` are seconds; "
            "memory and the sizes of values are in bytes."
        ),
        (
            "graph.Stream graph.Graph graph.GraphNode graph.State graph.RunsIn maps.MapIterator executor.Progress "
            "context.JobInfo context.JobNode resources.Receipt resources.Usage "
            "jobs.WorkerInfo jobs.LogLine jobs.Events jobs.Event "
            "scheduler.Explanation scheduler.Shortage resources.Missing resources.Short "
            "wire.Totals wire.EndedJob wire.EndedAttempt wire.ReceiptRow "
            "executor.UnendedCalls executor.LaunchedPool wire.PoolRow wire.BlockRow "
            "dag.DagReport dag.JobReport dryrun.Plan dryrun.PlannedJob dryrun.Unsatisfiable "
            "telemetry.CallSubmitted telemetry.CallEnded"
        ),
    ),
    "testing": (
        "Testing kit",
        "Clusters of workers on one machine, and fixtures of pytest: [a page with examples](../how-to/testing.md).",
        (
            "testing.Cluster testing.VirtualCluster testing.plugin.executor testing.plugin.executor_offer "
            "testing.plugin.cluster testing.ImplicitExecutorWarning"
        ),
    ),
    "adapters": (
        "Interfaces of others",
        "Executors of `concurrent.futures`, joblib and Dask on grainlike, and observers of calls.",
        (
            "adapters.GrainlikePool adapters.register_joblib adapters.dask_get "
            "telemetry.CallObserver telemetry.metrics_text"
        ),
    ),
}
_WRITTEN_AT = {"graph": "graph.graph"}
"""Names that are those of modules, too, whose pages would have all of these: where each is written."""
_HIDDEN = {
    "Dag": "get items keys values",
    "adapters.GrainlikePool": "end_when_idle keep_open",
    "executor.ConnectedExecutor": "report_found under_way write_trace",
    "dag.DagReport": "get items keys of traced_to values",
    "Allocation": "excess fits fits_units grown lasting suits",
    "Executor": "implicit pause ready refusal refusal_of wait",
    "Partition": "parts",
    "Request": "excess fits fits_units grown suits",
    "Retry": "covers kinds waits",
}
"""Members without an underscore that are for other parts of grainlike, by class."""
_MADE_BY_CALLS = {
    "Delayed",
    "DelayedFn",
    "graph.Graph",
    "graph.Stream",
    "maps.MapIterator",
    "jobs.Events",
    "jobs.LogLine",
    "executor.LaunchedPool",
}
"""Classes of which only calls make objects, of parts that no page is about."""
_WITHOUT_MEMBERS = {"CeleryBackend", "DaskBackend", "ProcessBackend", "RayBackend", "ThreadBackend"}
"""Engines, whose methods are those of an engine of one's own: docs/engines.md."""
_POOLS = {name for name in _SUBJECTS["launch"][2].split() if name != "launch.load"}
_HIDDEN_OF_POOLS = (
    "block block_nodes block_script dialect dialect_class has_one_server hopeless is_away kind margin_s system_options"
)
_WITH_INHERITED = {"Dag", "dag.DagReport", *_POOLS}
_INHERITED = {"Executor": "counts history report write_trace"}
"""Methods that a page shows of a class although a base has them, which no page shows."""
_ERRORS = "Every exception that grainlike raises. [A table](../errors.md) says what each means and what is tried again."


def public_names() -> set[str]:
    """Return the names that `grainlike` exports, dunders apart."""
    return {name for name in grainlike.__all__ if not name.startswith("_")}


def _subjects() -> dict[str, tuple[str, str, list[str]]]:
    errors = sorted(name for name in public_names() if name.endswith("Error"))
    written = {**_SUBJECTS, "exceptions": ("Errors", _ERRORS, " ".join(errors))}
    return {key: (title, about, names.split()) for key, (title, about, names) in written.items()}


def api_pages() -> dict[str, str]:
    """Return the pages of the API reference by file name, with each public name once.

    Raises:
        RuntimeError: a public name is on no page, or a page has a name that is not public.
    """
    subjects = _subjects()
    shown = [name for _, _, names in subjects.values() for name in names if "." not in name]
    if sorted(shown) != sorted(public_names()):
        differing = sorted(set(shown) ^ public_names()) or "one name twice"
        raise RuntimeError(f"public names and the pages of the reference differ: {differing}")
    pages = {f"reference/{key}.md": _page(*subject) for key, subject in subjects.items()}
    rows = "\n".join(f"| [{title}]({key}.md) | {_links(key, names)} |" for key, (title, _, names) in subjects.items())
    pages["reference/api.md"] = f"# API reference\n\n| page | names |\n|---|---|\n{rows}\n"
    return pages


def shown_objects() -> dict[str, Any]:
    """Return what the pages show, by name below `grainlike`, members of classes apart."""
    names = [name for _, _, names in _subjects().values() for name in names]
    return {name: _object(_WRITTEN_AT.get(name, name)) for name in names}


def _object(name: str) -> Any:
    room, _, last = name.rpartition(".")
    return getattr(import_module(f"grainlike.{room}") if room else grainlike, last)


def shown_classes() -> dict[str, type]:
    """Return the classes that the pages show, by full name."""
    return {f"grainlike.{name}": found for name, found in shown_objects().items() if isinstance(found, type)}


def signed_classes() -> set[str]:
    """Return the full names of the classes that the pages show with a signature: those that have fields or parameters.

    A class of which only calls of grainlike make objects, of parts that no page is about, has none.
    """
    made_here = {f"grainlike.{name}" for name in _MADE_BY_CALLS}
    return {name for name, kind in shown_classes().items() if name not in made_here and _is_signed(kind)}


def _is_signed(kind: type) -> bool:
    if issubclass(kind, Enum) or (issubclass(kind, BaseException) and "__init__" not in vars(kind)):
        return False
    return bool(parameters_of(kind))


def parameters_of(kind: type) -> list[inspect.Parameter]:
    """Return the parameters of a class."""
    if not issubclass(kind, Struct):
        return list(inspect.signature(kind).parameters.values())
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__  # its signature needs the types, too
    given = [inspect.Parameter.empty] * (len(names) - len(defaults)) + list(defaults)
    return [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
        for name, default in zip(names, given, strict=True)
    ]


def _links(key: str, names: list[str]) -> str:
    return ", ".join(f"[`{name}`]({key}.md#grainlike.{_WRITTEN_AT.get(name, name)})" for name in names)


def shown_members(name: str, kind: type) -> list[str]:
    """Return the names of a class's members that the reference shows."""
    if name in _WITHOUT_MEMBERS:
        return []
    hidden = _hidden(name)
    found = dir(kind) if name in _WITH_INHERITED else [*vars(kind), *_INHERITED.get(name, "").split()]
    return [member for member in found if not member.startswith("_") and member not in hidden]


def _hidden(name: str) -> list[str]:
    return (_HIDDEN_OF_POOLS if name in _POOLS else _HIDDEN.get(name, "")).split()


def _directive(name: str) -> str:
    lines = [f"::: grainlike.{_WRITTEN_AT.get(name, name)}", "    options:"]
    if name in _WITHOUT_MEMBERS:
        lines.append("      members: false")
    if name in _MADE_BY_CALLS:
        lines.append("      merge_init_into_class: false")
    if name in _WITH_INHERITED:
        lines.append("      inherited_members: true")
    if name in _INHERITED:
        lines.append(f"      inherited_members: [{', '.join(_INHERITED[name].split())}]")
    if hidden := _hidden(name):
        lines.append(f'      filters: ["!^_", "!^({"|".join(hidden)})$"]')
    return "\n".join(lines if len(lines) > 2 else lines[:1]) + "\n"


def _page(title: str, about: str, names: list[str]) -> str:
    return f"# {title}\n\n{about}\n\n" + "\n".join(map(_directive, names))
