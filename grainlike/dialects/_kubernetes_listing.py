"""Blocks in what Kubernetes says of Jobs, pods and events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from grainlike.dialects._block import is_native_name
from grainlike.dialects._facts import ListedBlock, NativeState

__all__ = ["LABEL", "NAME", "blocks_of", "mapping_of", "name_of"]

NAME = "grainlike/name"
LABEL = "grainlike/label"

_BEGINNING = (None, "ContainerCreating", "PodInitializing")
"""Reasons of a container that is about to run."""

_HOPELESS = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ImagePullBackOff",
        "InvalidImageName",
    }
)
"""Reasons of a container that is tried again and again: a pod that never fails, and never runs."""


def blocks_of(items: Sequence[object], now: datetime | None = None) -> Iterator[ListedBlock]:
    """Yield our blocks among Jobs, pods and events. `now` is the server's time; without it none has an end.

    A block is `ended` when its Job is, or when its container cannot be made: somebody is to delete it then.
    """
    found = [mapping_of(item) for item in items]
    pods = [item for item in found if item.get("kind") == "Pod"]
    warnings = [item for item in found if item.get("kind") == "Event"]
    for job in found:
        if job.get("kind") == "Job" and is_native_name(name_of(job)):
            own = [pod for pod in pods if _labels(pod).get(NAME) == name_of(job)]
            about = {name_of(job), *map(name_of, own)}
            told = [event for event in warnings if mapping_of(event.get("involvedObject")).get("name") in about]
            yield _block_of(job, own, told, now)


def mapping_of(value: object) -> dict[str, Any]:
    """Return a mapping; an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def name_of(item: Mapping[str, Any]) -> str:
    """Return the name of an object."""
    return str(mapping_of(item.get("metadata")).get("name", ""))


def _dicts(holder: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = holder.get(key)
    return [mapping_of(item) for item in cast("list[object]", found)] if isinstance(found, list) else []


def _labels(item: Mapping[str, Any]) -> dict[str, Any]:
    return mapping_of(mapping_of(item.get("metadata")).get("labels"))


def _block_of(
    job: Mapping[str, Any],
    pods: Sequence[Mapping[str, Any]],
    events: Sequence[Mapping[str, Any]],
    now: datetime | None,
) -> ListedBlock:
    name, status = name_of(job), mapping_of(job.get("status"))
    end = next((one for one in _dicts(status, "conditions") if _is_end(one)), None)
    running = [pod for pod in pods if mapping_of(pod.get("status")).get("phase") == "Running"]
    hopeless = [words for pod in pods for words in _hopeless(pod, events)]
    reasons = [*hopeless, *(reason for pod in pods for reason in _reasons(pod))]
    state: NativeState = "running" if running else "pending"
    if "deletionTimestamp" in mapping_of(job.get("metadata")):
        state = "ending"
    elif end is not None:
        state = "ended"
        reasons.append(_because(end) or str(end.get("type")))
    elif hopeless and not running:
        state = "ended"
    elif not reasons and not running:
        reasons += [_because(event) for event in events]
    nodes = [str(node) for pod in pods if (node := mapping_of(pod.get("spec")).get("nodeName"))]
    reason = reasons[0] if reasons else "" if state == "running" else state
    left = [seconds for pod in running if (seconds := _left(pod, now)) is not None]
    start = str(status.get("startTime", ""))
    return ListedBlock(name, name, state, reason, min(left, default=None), tuple(nodes), start)


def _is_end(condition: Mapping[str, Any]) -> bool:
    return condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"


def _because(condition: Mapping[str, Any]) -> str:
    return ": ".join(str(condition[key]) for key in ("reason", "message") if condition.get(key))


def _hopeless(pod: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield why a container of a pod cannot be made: in the words of an event, which says more."""
    for container in _dicts(mapping_of(pod.get("status")), "containerStatuses"):
        waiting = mapping_of(mapping_of(container.get("state")).get("waiting"))
        if waiting.get("reason") in _HOPELESS:
            told = [str(event.get("message")) for event in events if _is_failure_of(event, name_of(pod))]
            yield f"{waiting['reason']}: {told[-1]}" if told else _because(waiting)


def _is_failure_of(event: Mapping[str, Any], pod: str) -> bool:
    about = mapping_of(event.get("involvedObject")).get("name")
    return about == pod and event.get("reason") == "Failed" and str(event.get("message", "")).startswith("Failed ")


def _reasons(pod: Mapping[str, Any]) -> Iterator[str]:
    """Yield why a pod does not run: its own words, its containers', the scheduler's."""
    status = mapping_of(pod.get("status"))
    if status.get("reason"):
        yield _because(status)
    for container in _dicts(status, "containerStatuses"):
        state = mapping_of(container.get("state"))
        waiting, gone = mapping_of(state.get("waiting")), mapping_of(state.get("terminated"))
        if waiting.get("reason") not in _BEGINNING:
            yield _because(waiting)
        if gone.get("exitCode") not in (None, 0):
            yield f"exit code {gone['exitCode']}" + (f": {gone['reason']}" if gone.get("reason") == "OOMKilled" else "")
    for condition in _dicts(status, "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield _because(condition)


def _left(pod: Mapping[str, Any], now: datetime | None) -> float | None:
    """Return the seconds until a pod's deadline."""
    deadline = mapping_of(pod.get("spec")).get("activeDeadlineSeconds")
    try:
        began = datetime.fromisoformat(str(mapping_of(pod.get("status")).get("startTime")))
        return None if now is None else max(0.0, float(deadline) - (now - began).total_seconds())  # type: ignore[arg-type]
    except (TypeError, ValueError):  # no deadline, no start, or a time without a zone
        return None
