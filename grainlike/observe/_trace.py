"""Trace of jobs on workers, for ui.perfetto.dev and chrome://tracing."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, count

from grainlike.observe._stretch import Depth, Stretch
from grainlike.observe._trace_rows import Bar, TraceRows
from grainlike.resources import KINDS

__all__ = ["trace"]

_QUEUE = 0
"""Number of the process whose counters are about all workers."""


def trace(stretches: Iterable[Stretch], depths: Iterable[Depth] = ()) -> str:
    """Draw up a trace as Chrome's JSON: a process for each worker, a row for each core and each GPU.

    A job on several of them has a bar on each. Jobs without any have rows of their own, as many as ran at once; and so
    have those that shared a core, which another job had lent, or a device. Bytes that came to a worker, left it, and
    were written to its disk have rows of their own. What seems to overlap by less than a millisecond begins when the
    one before it has ended: clocks agree no better than that.

    An arrow leads from the end of a job to the begin of each that needed it. There are counters of what was held on
    each worker of each kind without ids, as bytes of memory, and of the jobs that waited and ran, from `depths`. The
    first moment is zero.

    Example::

        Path("trace.json").write_text(trace(stretches))
    """
    drawn = sorted(stretches, key=lambda one: (one.began, one.ended))
    counted = sorted(depths)
    since = min([one.began for one in drawn[:1]] + [one.at for one in counted[:1]], default=0.0)
    processes = {worker: number for number, worker in enumerate(dict.fromkeys(one.worker for one in drawn), _QUEUE + 1)}
    rows = TraceRows()
    bars: list[str] = []
    first: list[tuple[Stretch, Bar]] = []
    for one in drawn:
        began, ended = _ns(one.began - since), _ns(one.ended - since)
        # Of a bar without any length no viewer could show that an arrow begins there.
        placed = list(rows.place(one, processes[one.worker], began, max(ended, began + 1)))
        first.append((one, placed[0]))
        name, details = _quoted(one.name), json.dumps(dict(one.details))
        kind = "bytes" if one.lane else "job"
        bars.extend(_bar(name, kind, bar, details) for bar in placed)
    titles = (json.dumps(title) for title in (*_titles(processes, queue=bool(counted)), *rows.titles()))
    # Written out by hand: a trace may have some hundred thousand events, all alike.
    events = ",\n".join(chain(titles, bars, _arrows(first), _held(first), _depths(counted, since)))
    return f'{{"displayTimeUnit": "ms", "traceEvents": [\n{events}\n]}}\n'


def _bar(name: str, kind: str, bar: Bar, details: str) -> str:
    pid, tid, began, ended = bar
    return (
        f'{{"ph":"X","name":{name},"cat":"{kind}","pid":{pid},"tid":{tid},"ts":{began / 1e3},'
        f'"dur":{(ended - began) / 1e3},"args":{details}}}'
    )


def _arrows(placed: Sequence[tuple[Stretch, Bar]]) -> Iterator[str]:
    """Iterate over arrows from the last nanosecond of the first bar of one job to the begin of the first bar of
    another.
    """
    bars: dict[Hashable, Bar] = {one.key: bar for one, bar in placed if one.key is not None}
    numbers = count(1)
    for one, bar in placed:
        for need in one.needs:
            source = bars.get(need)
            if source is None:  # it was not recorded, or no longer is
                continue
            leaves = min(source.ended - 1, bar.began)
            if leaves < source.began:
                continue
            about = f'"name":"needs","cat":"needs","id":{next(numbers)}'
            yield f'{{"ph":"s",{about},"pid":{source.pid},"tid":{source.tid},"ts":{leaves / 1e3}}}'
            yield f'{{"ph":"f","bp":"e",{about},"pid":{bar.pid},"tid":{bar.tid},"ts":{bar.began / 1e3}}}'


def _held(placed: Sequence[tuple[Stretch, Bar]]) -> Iterator[str]:
    """Write what was held on each worker of each kind without ids, at each change."""
    changes: dict[tuple[int, str], dict[int, int]] = {}
    for one, bar in placed:
        for name, amount in one.held.items():
            of_worker = changes.setdefault((bar.pid, name), {})
            of_worker[bar.began] = of_worker.get(bar.began, 0) + amount
            of_worker[bar.ended] = of_worker.get(bar.ended, 0) - amount
    for (pid, name), of_worker in changes.items():
        title, unit = json.dumps(f"{name} held"), json.dumps(KINDS[name].unit or name)
        held = 0
        for at, change in sorted(of_worker.items()):
            held += change
            yield f'{{"ph":"C","name":{title},"pid":{pid},"ts":{at / 1e3},"args":{{{unit}:{held}}}}}'


def _depths(counted: Iterable[Depth], since: float) -> Iterator[str]:
    for at, waiting, running in counted:
        figures = f'{{"running":{running},"waiting":{waiting}}}'
        yield f'{{"ph":"C","name":"jobs","pid":{_QUEUE},"ts":{_ns(at - since) / 1e3},"args":{figures}}}'


def _titles(processes: Mapping[str, int], *, queue: bool) -> Iterator[dict[str, object]]:
    named = [("queue", _QUEUE)] if queue else []
    for name, pid in [*named, *processes.items()]:
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


_quoted = lru_cache(maxsize=1024)(json.dumps)
"""Names as JSON; most are drawn again and again."""
