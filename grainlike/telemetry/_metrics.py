"""Figures of a head in the text formats of Prometheus and OpenMetrics. docs/monitoring.md says what each means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from grainlike.wire import AskMetrics, MetricsAre, Totals, WorkerUse

if TYPE_CHECKING:
    from grainlike.client import HeadClient

__all__ = ["OPENMETRICS", "PROMETHEUS", "metrics_text", "render_metrics"]

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
"""Content types of the two formats."""

_JOB_STATES = ("queued", "assigned", "running", "stopping", "backoff")
_WORKER_STATES = ("up", "suspect", "quarantine", "leaving")
_BLOCK_STATES = ("intent", "pending", "starting", "up", "leaving")
_OUTCOMES = ("succeeded", "failed", "skipped", "timed_out", "cancelled")
_OWN_KINDS = (("cores", "cores", "Cores"), ("gpus", "gpus", "GPUs"), ("memory", "memory_bytes", "Memory"))
_HOUR_S = 3600

_Labels = Mapping[str, str]


class _Family(NamedTuple):
    """Metric family. A counter's name is without `_total`, an info's without `_info`."""

    name: str
    kind: Literal["counter", "gauge", "info"]
    help: str
    samples: Sequence[tuple[_Labels, float]]
    unit: str = ""


async def metrics_text(client: HeadClient, *, openmetrics: bool = False) -> str:
    """Ask a head for its figures, and return them as a scrape of Prometheus is answered: see `PROMETHEUS`.

    With `openmetrics` it is the other format, `OPENMETRICS`. Cancelling it changes nothing at the head.

    Raises:
        HeadLostError: the head is lost.

    Example::

        async with call() as client:
            print(await metrics_text(client))
    """
    return render_metrics(await client.ask(AskMetrics(0), MetricsAre), openmetrics=openmetrics)


def render_metrics(facts: MetricsAre, *, openmetrics: bool = False) -> str:
    """Return the figures of a head as text."""
    lines = [line for family in _families(facts) for line in _lines(family, openmetrics=openmetrics)]
    if openmetrics:
        lines.append("# EOF")
    return "\n".join([*lines, ""])


# --- families --------------------------------------------------------------------------------------------------------


def _families(facts: MetricsAre) -> Iterator[_Family]:
    yield from _of_head(facts)
    yield from _of_jobs(facts)
    yield from _of_workers(facts.workers)
    yield from _of_pools(facts)


def _of_head(facts: MetricsAre) -> Iterator[_Family]:
    about = {"cluster": facts.cluster, "version": facts.version, "python_version": facts.python}
    yield _Family(
        "grainlike_build", "info", "The head: its cluster, and versions of grainlike and Python.", [(about, 1)]
    )
    yield _gauge("grainlike_head_start_time_seconds", "When the head was started.", facts.at - facts.up_s, "seconds")
    yield _gauge("grainlike_head_up_seconds", "Seconds since the head was started.", facts.up_s, "seconds")
    yield _gauge("grainlike_clients", "Clients that are connected.", facts.clients)
    yield _gauge("grainlike_sessions", "Named sessions.", facts.sessions)
    yield _gauge("grainlike_session_kept_bytes", "Outcomes that named sessions keep.", facts.kept_bytes, "bytes")
    yield _gauge("grainlike_history_jobs", "Ended jobs that the head remembers.", facts.history_jobs)
    yield _gauge("grainlike_history_bytes", "Memory that they take.", facts.history_bytes, "bytes")


def _of_jobs(facts: MetricsAre) -> Iterator[_Family]:
    states = [({"state": state}, facts.jobs.get(state, 0)) for state in _JOB_STATES]
    yield _Family("grainlike_jobs", "gauge", "Jobs that have not ended, by state.", states)
    totals: Totals = facts.totals
    ends = [({"outcome": outcome}, getattr(totals, outcome)) for outcome in _OUTCOMES]
    yield _Family("grainlike_jobs_ended", "counter", "Jobs that have ended, by outcome.", ends)
    words = "Seconds that jobs ran, added up."
    yield _Family("grainlike_job_run_seconds", "counter", words, [({}, totals.run_seconds)], "seconds")
    yield _gauge("grainlike_queue_groups", "Groups of alike jobs that wait.", facts.queue_groups)


def _of_workers(workers: Sequence[WorkerUse]) -> Iterator[_Family]:
    states = [({"state": state}, sum(worker.state == state for worker in workers)) for state in _WORKER_STATES]
    yield _Family("grainlike_workers", "gauge", "Connected workers, by state.", states)
    running = [(_who(worker), worker.jobs) for worker in workers]
    yield _Family("grainlike_worker_jobs", "gauge", "Jobs that hold slots on a worker.", running)
    for kind, name, words in _OWN_KINDS:
        unit = "bytes" if name.endswith("_bytes") else ""
        offers = [worker for worker in workers if kind in worker.offered]
        offered = [(_who(worker), worker.offered[kind]) for worker in offers]
        used = [(_who(worker), worker.used[kind]) for worker in offers]
        in_use = f"grainlike_worker_{kind}_in_use" + (f"_{unit}" if unit else "")
        yield _Family(f"grainlike_worker_{name}", "gauge", f"{words} that a worker offers.", offered, unit)
        yield _Family(in_use, "gauge", f"{words} of a worker that jobs hold.", used, unit)
    own = {kind for kind, _, _ in _OWN_KINDS}
    others = [(worker, kind) for worker in workers for kind in worker.offered if kind not in own]
    amounts = [({**_who(worker), "resource": kind}, worker.offered[kind]) for worker, kind in others]
    used = [({**_who(worker), "resource": kind}, worker.used[kind]) for worker, kind in others]
    yield _Family("grainlike_worker_resource", "gauge", "Other resources that a worker offers.", amounts)
    yield _Family("grainlike_worker_resource_in_use", "gauge", "Other resources of a worker that jobs hold.", used)


def _who(worker: WorkerUse) -> _Labels:
    return {"worker": worker.name}


def _of_pools(facts: MetricsAre) -> Iterator[_Family]:
    pools = facts.pools
    workers = [
        ({"pool": pool.pool, "state": state}, count)
        for pool in pools
        for state, count in (("up", pool.up), ("pending", pool.pending), ("wanted", pool.wanted))
    ]
    yield _Family("grainlike_pool_workers", "gauge", "Workers of a pool: connected, in its queue, of use.", workers)
    for name, words in (("min", "least"), ("max", "most")):
        bound = [({"pool": pool.pool}, getattr(pool, name)) for pool in pools]
        yield _Family(f"grainlike_pool_workers_{name}", "gauge", f"The {words} workers of a pool.", bound)
    paused = [({"pool": pool.pool}, float(bool(pool.paused))) for pool in pools]
    yield _Family("grainlike_pool_paused", "gauge", "1 where a pool submits nothing until somebody resumes it.", paused)
    spent = [({"pool": pool.pool}, pool.spent_core_hours * _HOUR_S) for pool in pools]
    words = "Core seconds of the blocks that have ended."
    yield _Family("grainlike_pool_core_seconds", "counter", words, spent, "seconds")
    counts = {(pool, state): count for pool, state, count in facts.blocks}
    named = dict.fromkeys([*(pool.pool for pool in pools), *(pool for pool, _, _ in facts.blocks)])
    blocks = [
        ({"pool": pool, "state": state}, counts.get((pool, state), 0)) for pool in named for state in _BLOCK_STATES
    ]
    yield _Family("grainlike_blocks", "gauge", "Blocks of a pool that have not ended, by state.", blocks)


def _gauge(name: str, words: str, value: float, unit: str = "") -> _Family:
    return _Family(name, "gauge", words, [({}, value)], unit)


# --- text ------------------------------------------------------------------------------------------------------------


_SUFFIXES = {"counter": "_total", "info": "_info", "gauge": ""}


def _lines(family: _Family, *, openmetrics: bool) -> Iterator[str]:
    sample = family.name + _SUFFIXES[family.kind]
    if openmetrics:
        name, kind = family.name, family.kind
    else:  # there a name is that of its samples, and information is a gauge of 1
        name, kind = sample, "gauge" if family.kind == "info" else family.kind
    yield f"# HELP {name} {family.help}"
    yield f"# TYPE {name} {kind}"
    if openmetrics and family.unit:
        yield f"# UNIT {name} {family.unit}"
    for labels, value in family.samples:
        written = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{sample}{{{written}}} {_number(value)}" if written else f"{sample} {_number(value)}"


def _escaped(text: str) -> str:
    plain = text.encode("utf-8", "backslashreplace").decode()
    return plain.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
