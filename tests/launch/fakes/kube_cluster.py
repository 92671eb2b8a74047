"""Objects of the fake Kubernetes, and its controller of Jobs: README-kubernetes.md says how far it goes."""

from __future__ import annotations

import base64
import re
import threading
import time
import uuid
from functools import lru_cache
from typing import Any

import kubernetes_validate
import kubernetes_validate.utils
from kube_pods import PodRun

VERSION = "1.33"
NAMESPACES = ("default", "team")
NODES = ("fake-1", "fake-2", "fake-3")
API = {"jobs": ("batch/v1", "Job"), "pods": ("v1", "Pod"), "secrets": ("v1", "Secret"), "events": ("v1", "Event")}
TERMINAL = ("Succeeded", "Failed")

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL = re.compile(r"([A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?")
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")

# The schemas of one version have megabytes.
kubernetes_validate.utils.schema_contents = lru_cache(kubernetes_validate.utils.schema_contents)

Item = dict[str, Any]


class Refusal(Exception):
    """Answer other than yes, as a `Status` of the API."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.body = {
            "apiVersion": "v1",
            "kind": "Status",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }
        self.code = code


def stamp(seconds: float | None = None) -> str:
    """Return a time as the API writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def check(kind: str, item: Item) -> None:
    """Refuse what a real server would: by its schema, and some rules that are in no schema."""
    name = item.get("metadata", {}).get("name", "")
    who = f'{API[kind][1]} "{name}" is invalid'
    try:
        kubernetes_validate.validate(item, VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        where = ".".join(map(str, error.path))
        raise Refusal(422, "Invalid", f"{who}: {where}: {error.message}") from None
    if not _NAME.fullmatch(name):
        raise Refusal(422, "Invalid", f"{who}: metadata.name: a lowercase RFC 1123 subdomain must consist of ...")
    for key, value in item["metadata"].get("labels", {}).items():
        if not _KEY.fullmatch(key) or not _LABEL.fullmatch(value):
            raise Refusal(422, "Invalid", f"{who}: metadata.labels: Invalid value: {key}={value}")
    if kind != "jobs":
        return
    pod = item["spec"]["template"]["spec"]
    if pod.get("restartPolicy") not in ("Never", "OnFailure"):
        raise Refusal(422, "Invalid", f"{who}: spec.template.spec.restartPolicy: Required value: valid values: ...")
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    for container in pod["containers"]:
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in volumes:
                raise Refusal(422, "Invalid", f'{who}: volumeMounts: Not found: "{mount["name"]}"')
        asked = container.get("resources", {})
        for what, amount in asked.get("requests", {}).items():
            if asked.get("limits", {}).get(what, amount) != amount:
                raise Refusal(422, "Invalid", f"{who}: {what}: requests and limits differ")


class Cluster:
    """All objects, by kind, namespace and name; `changed` is held by who looks at them or changes them."""

    def __init__(self, folder: Any, images: list[str], cpus: int) -> None:
        self.folder, self.images, self.cpus = folder, images, cpus
        self.changed = threading.Condition(threading.RLock())
        self._items: dict[tuple[str, str, str], Item] = {}
        self._runs: dict[str, PodRun] = {}
        self._version = 0
        self.closed = False
        threading.Thread(target=self._control, daemon=True).start()

    def touch(self) -> None:
        """Tell all who wait that something has changed."""
        with self.changed:
            self.changed.notify_all()

    # --- what the API does -------------------------------------------------------------------------------------------

    def create(self, kind: str, namespace: str, item: Item, *, dry: bool) -> Item:
        """Store an object, unless it is a dry run."""
        with self.changed:
            if namespace not in NAMESPACES:
                raise Refusal(404, "NotFound", f'namespaces "{namespace}" not found')
            name = item.get("metadata", {}).get("name", "")
            said = item.get("metadata", {}).get("namespace", namespace)
            if (item.get("apiVersion"), item.get("kind")) != API[kind] or said != namespace:
                raise Refusal(400, "BadRequest", f"{item.get('kind')} in {said} is not what the address says")
            check(kind, item)
            if (kind, namespace, name) in self._items:
                raise Refusal(409, "AlreadyExists", f'{self._plural(kind)} "{name}" already exists')
            return self._store(kind, namespace, item, dry=dry)

    def _store(self, kind: str, namespace: str, item: Item, *, dry: bool = False) -> Item:
        self._version += 1
        more = {"namespace": namespace, "uid": str(uuid.uuid4()), "creationTimestamp": stamp()}
        item["metadata"] |= {**more, "resourceVersion": str(self._version)}
        if kind == "secrets":
            plain = item.pop("stringData", {})
            item.setdefault("data", {}).update(
                {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
            )
        if kind == "jobs":
            item["status"] = {}
        if not dry:
            self._items[kind, namespace, item["metadata"]["name"]] = item
            self.changed.notify_all()
        return item

    @staticmethod
    def _plural(kind: str) -> str:
        return "jobs.batch" if kind == "jobs" else kind

    def get(self, kind: str, namespace: str, name: str) -> Item:
        """Return an object."""
        with self.changed:
            if (kind, namespace, name) not in self._items:
                raise Refusal(404, "NotFound", f'{self._plural(kind)} "{name}" not found')
            return self._items[kind, namespace, name]

    def list(self, kind: str, namespace: str, labels: dict[str, str], fields: dict[str, str]) -> list[Item]:
        """Return the objects with these labels and fields, without `kind`, as the API has them in lists."""
        with self.changed:
            found = [item for (a, b, _), item in self._items.items() if (a, b) == (kind, namespace)]
            return [
                {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
                for item in found
                if labels.items() <= item["metadata"].get("labels", {}).items()
                and all(str(item.get(key)) == value for key, value in fields.items())
            ]

    def delete(self, kind: str, namespace: str, name: str, *, policy: str, grace: int | None) -> Item:
        """Delete an object: a Job in the foreground stays until its pods have gone."""
        with self.changed:
            item = self.get(kind, namespace, name)
            if kind == "jobs":
                item["metadata"]["deletionTimestamp"] = stamp()
                for pod in self._pods_of(item):
                    self._end_pod(pod, grace)
                if policy != "Foreground":
                    del self._items[kind, namespace, name]
            elif kind == "pods":
                self._end_pod(item, grace)
            else:
                del self._items[kind, namespace, name]
            self.changed.notify_all()
            return item

    def evict(self, namespace: str, name: str) -> None:
        """Have a node end a pod for want of memory."""
        with self.changed:
            self.get("pods", namespace, name)
            self._runs[name].evict("The node was low on resource: memory.")

    def log(self, namespace: str, name: str) -> str:
        """Return what a pod has printed."""
        self.get("pods", namespace, name)
        path = self.folder / "pods" / name / "log"
        if not path.exists():
            raise Refusal(400, "BadRequest", f'container "worker" in pod "{name}" is waiting to start')
        return path.read_text(errors="replace")

    def event(self, item: Item, reason: str, message: str) -> None:
        """Store a warning about an object."""
        with self.changed:
            meta = item["metadata"]
            about = {"kind": item.get("kind", "Pod"), "name": meta["name"], "namespace": meta["namespace"]}
            event = {"apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": reason, "message": message}
            name = f"{meta['name']}.{uuid.uuid4().hex[:8]}"
            self._store("events", meta["namespace"], {**event, "metadata": {"name": name}, "involvedObject": about})

    # --- pods --------------------------------------------------------------------------------------------------------

    def _pods_of(self, job: Item) -> list[Item]:
        owned = [item for (kind, *_), item in self._items.items() if kind == "pods"]
        return [pod for pod in owned if pod["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]]

    def _end_pod(self, pod: Item, grace: int | None) -> None:
        if "deletionTimestamp" not in pod["metadata"] or grace == 0:
            pod["metadata"]["deletionTimestamp"] = stamp()
            usual = pod["spec"].get("terminationGracePeriodSeconds", 30)
            self._runs[pod["metadata"]["name"]].end(usual if grace is None else grace)

    def pod_gone(self, pod: Item) -> None:
        """Forget a pod that was deleted and has ended."""
        with self.changed:
            meta = pod["metadata"]
            self._items.pop(("pods", meta["namespace"], meta["name"]), None)
            self._runs.pop(meta["name"], None)
            self.changed.notify_all()

    def place(self, pod: Item) -> bool:
        """Give a pod a node with as many free CPUs as it asks for."""
        with self.changed:
            pods = [item for (kind, *_), item in self._items.items() if kind == "pods"]
            for node in NODES:
                there = [one for one in pods if one["spec"].get("nodeName") == node]
                used = sum(_cpus(one) for one in there if one["status"].get("phase") not in TERMINAL)
                if used + _cpus(pod) <= self.cpus:
                    pod["spec"]["nodeName"] = node
                    return True
            return False

    def _new_pod(self, job: Item, index: int) -> None:
        template, meta = job["spec"]["template"], job["metadata"]
        name = f"{meta['name']}-{index}-{uuid.uuid4().hex[:5]}"
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
        metadata = {
            "name": name,
            "labels": {**template.get("metadata", {}).get("labels", {}), "batch.kubernetes.io/job-name": meta["name"]},
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
            "ownerReferences": [owner],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(template["spec"])}
        pod["status"] = {"phase": "Pending", "conditions": [], "containerStatuses": []}
        self._store("pods", meta["namespace"], pod)
        self._runs[name] = PodRun(self, pod, index)
        self._runs[name].start()

    # --- Jobs --------------------------------------------------------------------------------------------------------

    def _control(self) -> None:
        with self.changed:
            while not self.closed:
                for item in [item for (kind, *_), item in self._items.items() if kind == "jobs"]:
                    self._reconcile(item)
                self.changed.wait(0.2)

    def _reconcile(self, job: Item) -> None:
        status, spec, meta = job["status"], job["spec"], job["metadata"]
        pods = self._pods_of(job)
        if "deletionTimestamp" in meta:
            if not pods:
                self._collect(job)
            return
        if any(one["type"] in ("Complete", "Failed") for one in status.get("conditions", [])):
            ttl = spec.get("ttlSecondsAfterFinished")
            if ttl is not None and time.time() >= status["_ended"] + ttl:
                self.delete("jobs", meta["namespace"], meta["name"], policy="Foreground", grace=None)
            return
        status.setdefault("startTime", stamp())
        status.setdefault("_began", time.time())
        phases = [(_index(pod), pod["status"]["phase"]) for pod in pods]
        failed = [index for index, phase in phases if phase == "Failed"]
        done = {index for index, phase in phases if phase == "Succeeded"}
        busy = {index for index, phase in phases if phase not in TERMINAL}
        status |= {"active": len(busy), "succeeded": len(done), "failed": len(failed)}
        each = spec.get("backoffLimitPerIndex")
        over = {index for index in failed if each is not None and failed.count(index) > each}
        late = spec.get("activeDeadlineSeconds")
        if late is not None and time.time() > status["_began"] + late:
            self._finish(job, "Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
        elif len(failed) > spec.get("backoffLimit", 6):
            self._finish(job, "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        elif len(done) == spec.get("completions", 1):
            self._finish(job, "Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        elif over and len(done | over) == spec.get("completions", 1):
            self._finish(job, "Failed", "FailedIndexes", "Job has failed indexes")
        else:
            for index in range(spec.get("completions", 1)):
                if index not in done | busy | over:
                    self._new_pod(job, index)

    def _finish(self, job: Item, kind: str, reason: str, message: str) -> None:
        condition = {"type": kind, "status": "True", "reason": reason, "message": message}
        job["status"] |= {"conditions": [condition], "_ended": time.time(), "active": 0}
        for pod in self._pods_of(job):
            if pod["status"]["phase"] not in TERMINAL:
                self._end_pod(pod, None)
        self.changed.notify_all()

    def _collect(self, job: Item) -> None:
        """Forget a Job, and what belongs to it."""
        meta = job["metadata"]
        for key, item in list(self._items.items()):
            owners = item["metadata"].get("ownerReferences", [])
            if item is job or any(owner["uid"] == meta["uid"] for owner in owners):
                del self._items[key]
        self.changed.notify_all()

    def close(self) -> None:
        """End all pods."""
        with self.changed:
            self.closed = True
            runs = list(self._runs.values())
            self.changed.notify_all()
        for run in runs:
            run.end(0)
        for run in runs:
            run.join(10)


def _index(pod: Item) -> int:
    return int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])


def _cpus(pod: Item) -> int:
    return sum(int(one.get("resources", {}).get("requests", {}).get("cpu", "0")) for one in pod["spec"]["containers"])
