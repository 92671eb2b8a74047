"""Pages of the API reference: a directive of mkdocstrings for each public name, by subject."""

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import grainlike

__all__ = ["api_pages", "public_names", "shown_members", "shown_objects"]

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
        "launch.Local launch.Slurm launch.PBS launch.LSF launch.SGE launch.SSH launch.Kubernetes launch.load",
    ),
    "testing": (
        "Testing kit",
        "Clusters of workers on one machine, and fixtures of pytest: [a page with examples](../how-to/testing.md).",
        (
            "testing.Cluster testing.VirtualCluster testing.plugin.executor testing.plugin.executor_offer "
            "testing.plugin.cluster"
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
    "executor.ConnectedExecutor": "write_trace",
    "launch.Kubernetes": "block block_nodes block_script dialect dialect_class kind",
    "launch.LSF": "dialect_class kind",
    "launch.Local": "block dialect_class kind",
    "launch.PBS": "dialect_class kind",
    "launch.SGE": "dialect_class kind",
    "launch.SSH": "block dialect_class has_one_server is_away kind",
    "launch.Slurm": "dialect_class kind",
    "Allocation": "excess fits fits_units grown lasting suits",
    "Executor": "implicit pause ready refusal refusal_of wait",
    "Partition": "parts",
    "Request": "excess fits fits_units grown suits",
    "Retry": "covers kinds waits",
}
"""Members without an underscore that are for other parts of grainlike, by class."""
_WITHOUT_MEMBERS = {"CeleryBackend", "DaskBackend", "ProcessBackend", "RayBackend", "ThreadBackend"}
"""Engines, whose methods are those of an engine of one's own: docs/engines.md."""
_WITH_INHERITED = {"Dag"}
_ERRORS = "Every exception that grainlike raises. [A table](../errors.md) says what each means and what is tried again."


def public_names() -> set[str]:
    """Return the names that `grainlike` exports, dunders apart."""
    return {name for name in grainlike.__all__ if not name.startswith("_")}


def api_pages() -> dict[str, str]:
    """Return the pages of the API reference by file name, with each public name once.

    Raises:
        RuntimeError: a public name is on no page, or a page has a name that is not public.
    """
    errors = sorted(name for name in public_names() if name.endswith("Error"))
    written = {**_SUBJECTS, "exceptions": ("Errors", _ERRORS, " ".join(errors))}
    subjects = {key: (title, about, names.split()) for key, (title, about, names) in written.items()}
    shown = [name for _, _, names in subjects.values() for name in names if "." not in name]
    if sorted(shown) != sorted(public_names()):
        differing = sorted(set(shown) ^ public_names()) or "one name twice"
        raise RuntimeError(f"public names and the pages of the reference differ: {differing}")
    pages = {f"reference/{key}.md": _page(*subject) for key, subject in subjects.items()}
    rows = "\n".join(f"| [{title}]({key}.md) | {_links(key, names)} |" for key, (title, _, names) in subjects.items())
    pages["reference/api.md"] = f"# API reference\n\n| page | names |\n|---|---|\n{rows}\n"
    return pages


def _links(key: str, names: list[str]) -> str:
    return ", ".join(f"[`{name}`]({key}.md#grainlike.{_WRITTEN_AT.get(name, name)})" for name in names)


def shown_members(name: str, kind: type) -> list[str]:
    """Return the names of a class's members that the reference shows."""
    if name in _WITHOUT_MEMBERS:
        return []
    hidden = _HIDDEN.get(name, "").split()
    found = dir(kind) if name in _WITH_INHERITED else vars(kind)
    return [member for member in found if not member.startswith("_") and member not in hidden]


def _directive(name: str) -> str:
    lines = [f"::: grainlike.{_WRITTEN_AT.get(name, name)}", "    options:"]
    if name in _WITHOUT_MEMBERS:
        lines.append("      members: false")
    if name in _WITH_INHERITED:
        lines.append("      inherited_members: true")
    if name in _HIDDEN:
        lines.append(f'      filters: ["!^_", "!^({_HIDDEN[name].replace(" ", "|")})$"]')
    return "\n".join(lines if len(lines) > 2 else lines[:1]) + "\n"


def _page(title: str, about: str, names: list[str]) -> str:
    return f"# {title}\n\n{about}\n\n" + "\n".join(map(_directive, names))


def shown_objects() -> Iterator[tuple[str, Any]]:
    """Iterate over what the pages show, with names below `grainlike`: functions, classes, methods and properties.

    Raises:
        AttributeError: a page names something that is not there.
    """
    text = "\n".join(api_pages().values())
    for name in re.findall(r"^::: grainlike\.(\S+)", text, re.MULTILINE):
        room, _, last = name.rpartition(".")
        owner = importlib.import_module(f"grainlike.{room}") if room else grainlike
        found = getattr(owner, last)
        yield name, found
        if isinstance(found, type) and not issubclass(found, BaseException):
            for member in shown_members(name, found):
                value = inspect.getattr_static(found, member)
                value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
                if inspect.isfunction(value) or isinstance(value, property):
                    yield f"{name}.{member}", value
