"""Kubernetes: a block is an indexed Job of as many pods as it has nodes, and a pod is a worker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from grainlike.dialects._block import BlockRequest, CommandResult, NativeCommand, is_native_name
from grainlike.dialects._dialect import Dialect
from grainlike.dialects._facts import Answer, ListedBlock, Listing, NativeState, answer_without_id, words_of
from grainlike.dialects._script import ScriptStyle

__all__ = ["KubernetesDialect"]

_OWNER = "app.kubernetes.io/managed-by"
_MOUNT = "/var/run/grainlike"


@dataclass(frozen=True, slots=True)
class KubernetesDialect(Dialect):
    """Text for Kubernetes, as `kubectl` and the API take it, and facts from what they print.

    Attributes:
        image: the image of the workers.
        namespace: where the Jobs are; empty: the context's own.
        context: of the user's configuration; empty: the current one.
        pod: what is merged over our pod's spec, as JSON text: containers by name, other lists as a whole.

    Example::

        >>> KubernetesDialect("me/worker:1").end(["gl00000000-1"]).argv[:3]
        ("kubectl", "delete", "job/gl00000000-1")
    """

    image: str
    namespace: str = ""
    context: str = ""
    pod: str = "{}"

    kind = "k8s"
    title = "Kubernetes"
    finders = ("KUBECONFIG",)

    def directives(self, block: BlockRequest) -> list[str]:  # noqa: ARG002 - as those that have some
        """Return no lines: what other systems read there is in the Job."""
        return []

    def style(self, block: BlockRequest) -> ScriptStyle:  # noqa: ARG002 - all blocks are alike
        """Return the parts of the script: it is the pod's first process, so it alone gets SIGTERM."""
        return ScriptStyle(shebang="#!/bin/sh", passes=True, rank='"${JOB_COMPLETION_INDEX:-0}"')

    def check_native(self, words: Sequence[str]) -> None:
        """Check the user's native flags.

        Raises:
            ValueError: there are some; a Job has none.
        """
        if words:
            raise ValueError(f"native: Kubernetes takes no flags such as {words[0]!r}: write pod = {{...}}")

    def manifest(self, block: BlockRequest) -> dict[str, Any]:
        """Return the Job of a block, and the Secret that it mounts, as one list for the API."""
        labels = {_OWNER: "grainlike", "grainlike/name": block.name, "grainlike/label": block.label}
        metadata: dict[str, Any] = {"name": block.name, "labels": labels}
        if self.namespace:
            metadata["namespace"] = self.namespace
        spec: dict[str, Any] = {
            "completionMode": "Indexed",
            "completions": block.nodes,
            "parallelism": block.nodes,
            "backoffLimit": 0,
            "template": {"metadata": {"labels": labels}, "spec": self._pod(block)},
        }
        if block.walltime_s is not None:
            spec["activeDeadlineSeconds"] = block.walltime_s
        items: list[dict[str, Any]] = [{"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}]
        if block.deliver:
            secret = {file.path.rpartition("/")[2]: file.text for file in block.deliver}
            items.insert(0, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": secret})
        return {"apiVersion": "v1", "kind": "List", "items": items}

    def _pod(self, block: BlockRequest) -> dict[str, Any]:
        amounts = {"cpu": block.cores, "memory": block.memory, "nvidia.com/gpu": block.gpus}
        asked = {name: str(amount) for name, amount in amounts.items() if amount}
        worker: dict[str, Any] = {
            "name": "worker",
            "image": self.image,
            "command": ["/bin/sh", "-c", self.script(self._inside(block))],
            "resources": {"requests": asked, "limits": asked},
        }
        pod: dict[str, Any] = {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [worker]}
        if block.deliver:
            worker["volumeMounts"] = [{"name": "access", "mountPath": _MOUNT, "readOnly": True}]
            pod["volumes"] = [{"name": "access", "secret": {"secretName": block.name, "defaultMode": 0o400}}]
        return merged(pod, cast("Mapping[str, Any]", json.loads(self.pod)))

    def _inside(self, block: BlockRequest) -> BlockRequest:
        """Return the request as the pod sees it: what is delivered is mounted."""
        return replace(block, access=f"{_MOUNT}/{block.access.rpartition('/')[2]}") if block.deliver else block

    def _kubectl(self, *words: str, stdin: str = "") -> NativeCommand:
        context = ("--context", self.context) if self.context else ()
        namespace = ("--namespace", self.namespace) if self.namespace else ()
        return NativeCommand(("kubectl", *words, *context, *namespace), stdin)

    def submit(self, block: BlockRequest) -> NativeCommand:
        """Return the creation of the Job and its Secret."""
        return self._kubectl("create", "-o", "name", "-f", "-", stdin=json.dumps(self.manifest(block)))

    def native_id(self, stdout: str) -> str:
        """Return the name of the Job that was made."""
        found = re.findall(r"^job\.batch/(\S+)$", stdout, re.MULTILINE)
        return found[-1] if found else ""

    def check(self, block: BlockRequest) -> NativeCommand:
        """Return the creation as a dry run of the server's."""
        command = self.submit(block)
        return NativeCommand((*command.argv, "--dry-run=server"), command.stdin)

    def checked(self, said: CommandResult) -> Answer:
        """Return what the answer to `check` means."""
        return Answer("accepted", words=words_of(said)) if said.code == 0 else answer_without_id(said)

    def list(self, user: str, host: str = "") -> tuple[NativeCommand, ...]:  # noqa: ARG002 - labels say whose they are
        """Return the listing of our Jobs and their pods."""
        return (self._kubectl("get", "jobs,pods", "-l", f"{_OWNER}=grainlike", "-o", "json"),)

    def listed(self, said: CommandResult) -> Listing:
        """Return the blocks in a listing of Jobs and pods."""
        if said.code != 0:
            return Listing(failed=words_of(said) or "no answer in time")
        try:
            items = _dicts(_dict(json.loads(said.stdout)), "items")
        except (ValueError, RecursionError):
            return Listing(failed="kubectl printed JSON that is none")
        pods = [item for item in items if item.get("kind") == "Pod"]
        jobs = [item for item in items if item.get("kind") == "Job"]
        return Listing(tuple(_row(job, pods) for job in jobs if is_native_name(_name(job))))

    def end(self, natives: Sequence[str]) -> NativeCommand:
        """Return the deletion of Jobs and Secrets; it returns before the pods have gone."""
        names = [word for native in natives for word in (f"job/{native}", f"secret/{native}")]
        return self._kubectl("delete", *names, "--cascade=foreground", "--wait=false", "--ignore-not-found")


def merged(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec with another merged over it: mappings by key, lists of named things by name, all else as a whole.

    Example::

        >>> merged({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}})
        {'a': {'x': 1, 'y': 3}}
    """
    result = dict(ours)
    for key, value in theirs.items():
        old = result.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            result[key] = merged(cast("Mapping[str, Any]", old), cast("Mapping[str, Any]", value))
        elif isinstance(old, list) and isinstance(value, list) and _named(old) and _named(value):
            rows = {row["name"]: row for row in cast("list[dict[str, Any]]", old)}
            for row in cast("list[dict[str, Any]]", value):
                rows[row["name"]] = merged(rows.get(row["name"], {}), row)
            result[key] = list(rows.values())
        else:
            result[key] = value
    return result


def _named(rows: object) -> bool:
    return isinstance(rows, list) and all(
        isinstance(row, dict) and isinstance(row.get("name"), str) for row in cast("list[object]", rows)
    )


def _dict(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _dicts(holder: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = holder.get(key)
    return [_dict(item) for item in cast("list[object]", found)] if isinstance(found, list) else []


def _name(item: Mapping[str, Any]) -> str:
    return str(_dict(item.get("metadata")).get("name", ""))


def _row(job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> ListedBlock:
    name, status = _name(job), _dict(job.get("status"))
    own = [pod for pod in pods if _dict(_dict(pod.get("metadata")).get("labels")).get("grainlike/name") == name]
    ended = next((one for one in _dicts(status, "conditions") if _is_end(one)), None)
    reasons = [reason for pod in own for reason in _reasons(pod)]
    running = any(_dict(pod.get("status")).get("phase") == "Running" for pod in own)
    state: NativeState = "running" if running else "pending"
    if "deletionTimestamp" in _dict(job.get("metadata")):
        state = "ending"
    elif ended is not None:
        state = "ended"
        reasons.append(_because(ended) or str(ended.get("type")))
    nodes = [str(node) for pod in own if (node := _dict(pod.get("spec")).get("nodeName"))]
    reason = reasons[0] if reasons else "" if state == "running" else state
    return ListedBlock(name, name, state, reason, None, tuple(nodes), str(status.get("startTime", "")))


def _is_end(condition: Mapping[str, Any]) -> bool:
    return condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"


def _because(condition: Mapping[str, Any]) -> str:
    return ": ".join(str(condition[key]) for key in ("reason", "message") if condition.get(key))


def _reasons(pod: Mapping[str, Any]) -> Iterator[str]:
    """Yield why a pod does not run: its own words, its containers', the scheduler's."""
    status = _dict(pod.get("status"))
    if status.get("reason"):
        yield _because(status)
    for container in _dicts(status, "containerStatuses"):
        state = _dict(container.get("state"))
        waiting, gone = _dict(state.get("waiting")), _dict(state.get("terminated"))
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            yield _because(waiting)
        if gone.get("exitCode") not in (None, 0):
            yield f"exit code {gone['exitCode']}"
    for condition in _dicts(status, "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield _because(condition)
