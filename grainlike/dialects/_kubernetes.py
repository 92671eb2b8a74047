"""Kubernetes: a block is an indexed Job of as many pods as it has nodes, and a pod is a worker."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, cast

from grainlike.dialects._block import BlockRequest, CommandResult, NativeCommand
from grainlike.dialects._dialect import Dialect
from grainlike.dialects._facts import Answer, Listing, answer_without_id, words_of
from grainlike.dialects._kubernetes_answers import LABEL, NAME, api_answer, blocks_of, said_in
from grainlike.dialects._script import ScriptStyle

__all__ = ["KubernetesDialect"]

OWNER = "app.kubernetes.io/managed-by"
CLUSTER = "grainlike/cluster"

_MOUNTED = "/var/run/grainlike/access"
_OWN = "/var/run/grainlike/own"
_COPY = f"{_OWN}/worker.json"

FORGOTTEN_S = 600
"""Seconds after its end in which Kubernetes removes a Job by itself, with its Secret: where no head does."""

_DIGEST = slice(2, 10)
"""Place of the cluster's digest in a native name."""


@dataclass(frozen=True, slots=True)
class KubernetesDialect(Dialect):
    """Text for Kubernetes, as the API and `kubectl` take it, and facts from what they say.

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
    finders: ClassVar[tuple[str, ...]] = ("KUBECONFIG",)
    hopeless: ClassVar[re.Pattern[str] | None] = re.compile(
        r"invalid|not found|cannot create|unauthorized|unknown field", re.IGNORECASE
    )

    def directives(self, block: BlockRequest) -> list[str]:
        """Return the line that makes a file of our own of what is mounted: that is a link, and may be another user's.

        What other systems read there is in the Job.
        """
        return [f"(umask 077 && cat {_MOUNTED}/worker.json > {_COPY}) || exit"] if block.access == _COPY else []

    def style(self, block: BlockRequest) -> ScriptStyle:
        """Return the parts of the script: it is the pod's first process, so it alone gets SIGTERM."""
        rank = '"${JOB_COMPLETION_INDEX:-0}"'
        return ScriptStyle(self.directives(block), shebang="#!/bin/sh", passes=True, rank=rank)

    def check_native(self, words: Sequence[str]) -> None:
        """Check the user's native flags.

        Raises:
            ValueError: there are some; a Job has none.
        """
        if words:
            raise ValueError(f"native: Kubernetes takes no flags such as {words[0]!r}: write pod = {{...}}")

    # --- what is created ---------------------------------------------------------------------------------------------

    def job(self, block: BlockRequest) -> dict[str, Any]:
        """Return the Job of a block; it mounts a Secret of its own name if there are files to deliver.

        Nothing that failed is started again: one node is all or nothing, of several each fails for itself.
        """
        spec: dict[str, Any] = {
            "completionMode": "Indexed",
            "completions": block.nodes,
            "parallelism": block.nodes,
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": FORGOTTEN_S,
            "template": {"metadata": {"labels": self._labels(block)}, "spec": self._pod(block)},
        }
        if block.nodes > 1:
            spec |= {"backoffLimit": block.nodes, "backoffLimitPerIndex": 0}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": self._metadata(block), "spec": spec}

    def secret(self, block: BlockRequest, job_id: str) -> dict[str, Any]:
        """Return the Secret that a block's pods mount. It goes with its Job, whose `uid` is `job_id`."""
        metadata = self._metadata(block)
        if job_id:
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": block.name, "uid": job_id}
            metadata["ownerReferences"] = [owner]
        files = {file.path.rpartition("/")[2]: file.text for file in block.deliver}
        return {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "stringData": files}

    def manifest(self, block: BlockRequest) -> dict[str, Any]:
        """Return what is created as one list, without the Secret: what it holds is not shown."""
        return {"apiVersion": "v1", "kind": "List", "items": [self.job(block)]}

    def _metadata(self, block: BlockRequest) -> dict[str, Any]:
        metadata: dict[str, Any] = {"name": block.name, "labels": self._labels(block)}
        if self.namespace:
            metadata["namespace"] = self.namespace
        return metadata

    def _labels(self, block: BlockRequest) -> dict[str, str]:
        return {OWNER: "grainlike", CLUSTER: block.name[_DIGEST], NAME: block.name, LABEL: block.label}

    def _pod(self, block: BlockRequest) -> dict[str, Any]:
        amounts = {"cpu": block.cores, "memory": block.memory, "nvidia.com/gpu": block.gpus}
        asked = {name: str(amount) for name, amount in amounts.items() if amount}
        mounts = [{"name": "shm", "mountPath": "/dev/shm"}]  # noqa: S108 - by default a pod has 64 MiB there
        volumes: list[dict[str, Any]] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
        if block.deliver:
            volumes.append({"name": "access", "secret": {"secretName": block.name, "defaultMode": 0o400}})
            volumes.append({"name": "own", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}})
            mounts.append({"name": "access", "mountPath": _MOUNTED, "readOnly": True})  # type: ignore[dict-item]
            mounts.append({"name": "own", "mountPath": _OWN})
        worker: dict[str, Any] = {
            "name": "worker",
            "image": self.image,
            "command": ["/bin/sh", "-c", self.script(self._inside(block))],
            "resources": {"requests": asked, "limits": asked},
            "volumeMounts": mounts,
        }
        pod: dict[str, Any] = {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [worker],
            "volumes": volumes,
        }
        if block.walltime_s is not None:  # of the Job, it would run while the pod waits for a node
            pod["activeDeadlineSeconds"] = block.walltime_s
        return merged(pod, cast("Mapping[str, Any]", json.loads(self.pod)))

    def _inside(self, block: BlockRequest) -> BlockRequest:
        """Return the request as the pod sees it: what is delivered is mounted."""
        return replace(block, access=_COPY, deliver=()) if block.deliver else block

    # --- what the API says -------------------------------------------------------------------------------------------

    @property
    def selector(self) -> str:
        """Labels by which the API finds what is ours."""
        return f"{OWNER}=grainlike"

    def answered(self, status: int, body: str, name: str) -> Answer:
        """Return what the answer to the creation of `name` means."""
        return api_answer(status, body, name)

    def name_of(self, item: Mapping[str, Any]) -> str:
        """Return the native name of the block that an object belongs to."""
        return said_in(item, NAME)

    def label_of(self, item: Mapping[str, Any]) -> str:
        """Return the label of the block that an object belongs to."""
        return said_in(item, LABEL)

    def selector_of(self, name: str) -> str:
        """Return the label by which the API finds what belongs to a block."""
        return f"{NAME}={name}"

    def blocks(self, items: Sequence[object], now: datetime | None) -> Listing:
        """Return the blocks among Jobs, pods and events; `now` is the server's time."""
        return Listing(tuple(blocks_of(items, now)))

    # --- by hand: what `kubectl` is told -----------------------------------------------------------------------------

    def _kubectl(self, *words: str, stdin: str = "") -> NativeCommand:
        context = ("--context", self.context) if self.context else ()
        namespace = ("--namespace", self.namespace) if self.namespace else ()
        return NativeCommand(("kubectl", *words, *context, *namespace), stdin)

    def submit(self, block: BlockRequest) -> NativeCommand:
        """Return the creation of the Job."""
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
        return (self._kubectl("get", "jobs,pods", "-l", f"{OWNER}=grainlike", "-o", "json"),)

    def listed(self, said: CommandResult) -> Listing:
        """Return the blocks in a listing of Jobs and pods."""
        if said.code != 0:
            return Listing(failed=words_of(said) or "no answer in time")
        try:
            found: object = json.loads(said.stdout)
        except (ValueError, RecursionError):
            return Listing(failed="kubectl printed JSON that is none")
        items = cast("dict[str, object]", found).get("items") if isinstance(found, dict) else None
        return Listing(tuple(blocks_of(cast("list[object]", items) if isinstance(items, list) else [])))

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
