"""Answers of the API of Kubernetes: to what was to be created, and about Jobs, pods and events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from grainlike.dialects._block import CommandResult, is_native_name
from grainlike.dialects._facts import Answer, ListedBlock, NativeState, answer_without_id, words_of

__all__ = ["LABEL", "NAME", "api_answer", "blocks_of", "said_in"]

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

_TOO_MANY = 429
_BROKEN = 500


def api_answer(status: int, body: str, name: str) -> Answer:
    """Return what the answer to the creation of `name` means. One that is there already was taken before.

    Example::

        >>> api_answer(404, '{"message": "namespaces \\\\"x\\\\" not found"}', "gl00000000-1")
        Answer(verdict='refused', native='', words='namespaces "x" not found')
    """
    said = _status(body)
    if status < 300:
        return Answer("accepted", name)
    words = _words(status, body)
    if said.get("reason") == "AlreadyExists":
        return Answer("accepted", name, words)
    if status == _TOO_MANY or status >= _BROKEN:
        return Answer("unclear", words=words)
    limited = answer_without_id(CommandResult(1, "", words)).verdict == "waits"
    return Answer("waits" if limited else "refused", words=words)


def _words(status: int, body: str) -> str:
    message = _status(body).get("message")
    text = message if isinstance(message, str) and message else body
    return words_of(CommandResult(1, "", text)) if text.strip() else f"HTTP status {status}"


def _status(body: str) -> dict[str, object]:
    try:
        return _mapping(json.loads(body))
    except (ValueError, RecursionError):
        return {}


# --- listings --------------------------------------------------------------------------------------------------------


def blocks_of(items: Sequence[object], now: datetime | None = None) -> Iterator[ListedBlock]:
    """Yield our blocks among Jobs, pods and events. `now` is the server's time; without it none has an end.

    A block is `ended` when its Job is, or when its container cannot be made: somebody is to delete it then.
    """
    found = [_mapping(item) for item in items]
    pods: dict[str, list[dict[str, Any]]] = {}
    warnings: dict[str, list[dict[str, Any]]] = {}
    for item in found:
        if item.get("kind") == "Pod":
            pods.setdefault(said_in(item, NAME), []).append(item)
        elif item.get("kind") == "Event":
            warnings.setdefault(str(_mapping(item.get("involvedObject")).get("name")), []).append(item)
    for job in found:
        if job.get("kind") == "Job" and is_native_name(_name(job)):
            own = pods.get(_name(job), [])
            about = dict.fromkeys([_name(job), *map(_name, own)])
            yield _block_of(job, own, [event for name in about for event in warnings.get(name, [])], now)


def said_in(item: Mapping[str, Any], label: str) -> str:
    """Return the value of an object's label; empty if it has none."""
    return str(_mapping(_mapping(item.get("metadata")).get("labels")).get(label, ""))


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _name(item: Mapping[str, Any]) -> str:
    return str(_mapping(item.get("metadata")).get("name", ""))


def _dicts(holder: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = holder.get(key)
    return [_mapping(item) for item in cast("list[object]", found)] if isinstance(found, list) else []


def _block_of(
    job: Mapping[str, Any],
    pods: Sequence[Mapping[str, Any]],
    events: Sequence[Mapping[str, Any]],
    now: datetime | None,
) -> ListedBlock:
    name, status = _name(job), _mapping(job.get("status"))
    end = next((one for one in _dicts(status, "conditions") if _is_end(one)), None)
    running = [pod for pod in pods if _mapping(pod.get("status")).get("phase") == "Running"]
    hopeless = [words for pod in pods for words in _hopeless(pod, events)]
    reasons = [*hopeless, *(reason for pod in pods for reason in _reasons(pod))]
    state: NativeState = "running" if running else "pending"
    if "deletionTimestamp" in _mapping(job.get("metadata")):
        state = "ending"
    elif end is not None:
        state = "ended"
        reasons.append(_because(end) or str(end.get("type")))
    elif hopeless and not running:
        state = "ended"
    elif not reasons and not running:
        reasons += [_because(event) for event in events]
    nodes = [str(node) for pod in pods if (node := _mapping(pod.get("spec")).get("nodeName"))]
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
    for container in _dicts(_mapping(pod.get("status")), "containerStatuses"):
        waiting = _mapping(_mapping(container.get("state")).get("waiting"))
        if waiting.get("reason") in _HOPELESS:
            told = [str(event.get("message")) for event in events if _is_failure_of(event, _name(pod))]
            yield f"{waiting['reason']}: {told[-1]}" if told else _because(waiting)


def _is_failure_of(event: Mapping[str, Any], pod: str) -> bool:
    about = _mapping(event.get("involvedObject")).get("name")
    return about == pod and event.get("reason") == "Failed" and str(event.get("message", "")).startswith("Failed ")


def _reasons(pod: Mapping[str, Any]) -> Iterator[str]:
    """Yield why a pod does not run: its own words, its containers', the scheduler's."""
    status = _mapping(pod.get("status"))
    if status.get("reason"):
        yield _because(status)
    for container in _dicts(status, "containerStatuses"):
        state = _mapping(container.get("state"))
        waiting, gone = _mapping(state.get("waiting")), _mapping(state.get("terminated"))
        if waiting.get("reason") not in _BEGINNING:
            yield _because(waiting)
        if gone.get("exitCode") not in (None, 0):
            yield f"exit code {gone['exitCode']}" + (f": {gone['reason']}" if gone.get("reason") == "OOMKilled" else "")
    for condition in _dicts(status, "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield _because(condition)


def _left(pod: Mapping[str, Any], now: datetime | None) -> float | None:
    """Return the seconds until a pod's deadline."""
    deadline = _mapping(pod.get("spec")).get("activeDeadlineSeconds")
    try:
        began = datetime.fromisoformat(str(_mapping(pod.get("status")).get("startTime")))
        return None if now is None else max(0.0, float(deadline) - (now - began).total_seconds())  # type: ignore[arg-type]
    except (TypeError, ValueError):  # no deadline, no start, or a time without a zone
        return None
