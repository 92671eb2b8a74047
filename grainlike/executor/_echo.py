"""Echo: this program's own streams show what jobs of its embedded worker print.

In a notebook a job's output belongs to the cell that awaits it. Kernels find the cell of what is printed by a context
variable, so each job's output is written in the context of the job's last caller. At a prompt, and in a notebook,
what a cancelled job still writes is not shown: the prompt is another one by then. `Executor.logs` has all of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextvars import Context
from typing import Any

from grainlike.engine import Engine
from grainlike.executor._embedded import Show
from grainlike.executor._interactive import is_notebook, is_prompt
from grainlike.graph import Node

__all__ = ["echo_here"]

_MOST_JOBS = 1000
"""Number of jobs whose cells are remembered: a job that is cancelled may still write."""

_Submitter = Callable[[int], object | None]
"""Submitter of the job of a number: a placeholder of this program, or a client; None once the job has ended."""


def echo_here(engine: Engine, submitter: _Submitter) -> Show:
    """Return what shows the output of jobs in this program, as `embed` takes it."""
    if is_notebook():
        return _CellEcho(engine.caller_of, submitter)
    return _PromptEcho(submitter) if is_prompt() else _show


def _show(_: int, stream: Any, text: str) -> None:
    stream.write(text)


class _PromptEcho:
    def __init__(self, submitter: _Submitter) -> None:
        self._submitter = submitter

    def __call__(self, job: int, stream: Any, text: str) -> None:
        if not job or self._submitter(job) is not None:
            stream.write(text)


class _CellEcho:
    def __init__(self, caller_of: Callable[[Node], Context | None], submitter: _Submitter) -> None:
        self._caller_of = caller_of
        self._submitter = submitter
        self._cells: OrderedDict[int, Context] = OrderedDict()

    def __call__(self, job: int, stream: Any, text: str) -> None:
        found = self._submitter(job) if job else self
        cell = self._caller_of(found) if isinstance(found, Node) else None
        if cell is not None:
            self._cells[job] = cell
            if len(self._cells) > _MOST_JOBS:
                self._cells.popitem(last=False)
        elif found is None:
            cell = self._cells.get(job)
            if cell is None:
                return
        if cell is None:
            stream.write(text)
        else:
            cell.copy().run(stream.write, text)  # a copy: another thread may be in the context
