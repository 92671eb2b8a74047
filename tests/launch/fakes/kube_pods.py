"""Pods of the fake Kubernetes: each is a process of this machine, with its files in a directory of its own."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

MARK = "FAKE_POD_UID"


class PodRun(threading.Thread):
    """Life of one pod: it gets a node, its volumes and a process, and ends by itself, by its deadline or by others."""

    def __init__(self, cluster: Any, pod: dict[str, Any], index: int) -> None:
        super().__init__(daemon=True)
        self._cluster, self._pod, self._index = cluster, pod, index
        self._container = pod["spec"]["containers"][0]
        self._folder: Path = cluster.folder / "pods" / pod["metadata"]["name"]
        self._grace: int | None = None
        self._killed_at: float | None = None
        self._evicted = ""
        self._gone = False
        """True once none of its processes is left."""

    @property
    def _ends(self) -> bool:
        return self._grace is not None or bool(self._evicted)

    def end(self, grace: int) -> None:
        """Have it end: SIGTERM now, SIGKILL after the grace."""
        self._grace = grace
        self._cluster.touch()

    def evict(self, message: str) -> None:
        """Have it end as evicted by its node."""
        self._evicted = message
        self._cluster.touch()

    def run(self) -> None:
        """Run it from the beginning to the end."""
        try:
            if self._placed() and self._pulled() and self._mounted():
                self._run_process()
        except Exception as error:  # a defect of the fake, which a test is to see
            self._say(phase="Failed", reason="FakeIsBroken", message=repr(error))
            raise
        finally:
            if self._evicted and self._pod["status"]["phase"] == "Pending":
                self._say(phase="Failed", reason="Evicted", message=self._evicted)
            with self._cluster.changed:
                while self._grace is None and not self._cluster.closed:
                    self._cluster.changed.wait()
            self._cluster.pod_gone(self._pod)

    def _say(self, **status: Any) -> None:
        with self._cluster.changed:
            self._pod["status"] |= status
            self._cluster.changed.notify_all()

    def _wait(self, condition: Any) -> bool:
        """Return True once a condition holds, False when the pod is to end before."""
        with self._cluster.changed:
            while not self._ends:
                if condition():
                    return True
                self._cluster.changed.wait()
        return False

    # --- before it runs ----------------------------------------------------------------------------------------------

    def _placed(self) -> bool:
        if not self._cluster.place(self._pod):
            message = f"0/3 nodes are available: 3 Insufficient cpu; each has {self._cluster.cpus}."
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            self._say(conditions=[condition])
            if not self._wait(lambda: self._cluster.place(self._pod)):
                return False
        self._say(conditions=[{"type": "PodScheduled", "status": "True"}], startTime=_now())
        return True

    def _pulled(self) -> bool:
        image = self._container["image"]
        if image in self._cluster.images:
            return True
        words = f'failed to resolve reference "{image}": {image}: not found'
        self._cluster.event(self._pod, "Failed", f'Failed to pull image "{image}": {words}')
        waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}"'}
        self._say(containerStatuses=[{"name": "worker", "ready": False, "state": {"waiting": waiting}}])
        return self._wait(lambda: False)

    def _mounted(self) -> bool:
        self._folder.mkdir(mode=0o700, parents=True)
        for volume in self._pod["spec"].get("volumes", []):
            place = self._folder / "volumes" / volume["name"]
            place.mkdir(parents=True)
            if "secret" in volume and not self._mount_secret(place, volume["secret"]):
                return False
        return True

    def _mount_secret(self, place: Path, source: dict[str, Any]) -> bool:
        """Make files of a secret, which are links as in a real pod."""
        name, namespace = source["secretName"], self._pod["metadata"]["namespace"]

        def found() -> Any:
            return next(
                (item for item in self._cluster.list("secrets", namespace, {}, {}) if item["metadata"]["name"] == name),
                None,
            )

        if found() is None:
            self._cluster.event(
                self._pod, "FailedMount", f'MountVolume.SetUp failed for volume "access": secret "{name}" not found'
            )
        if not self._wait(found):
            return False
        (place / "..now").mkdir()
        (place / "..data").symlink_to("..now")
        for key, text in found()["data"].items():
            handle = os.open(place / "..now" / key, os.O_WRONLY | os.O_CREAT, source.get("defaultMode", 0o644))
            with os.fdopen(handle, "wb") as file:
                file.write(base64.b64decode(text))
            (place / key).symlink_to(f"..data/{key}")
        return True

    # --- the process -------------------------------------------------------------------------------------------------

    def _inside(self, text: str) -> str:
        """Return a text with the paths of mounts as they are on this machine."""
        for mount in self._container.get("volumeMounts", []):
            if mount["mountPath"] != "/dev/shm":
                text = text.replace(mount["mountPath"], str(self._folder / "volumes" / mount["name"]))
        return text

    def _run_process(self) -> None:
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(self._folder),
            "HOSTNAME": self._pod["metadata"]["name"],
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "JOB_COMPLETION_INDEX": str(self._index),
            MARK: self._pod["metadata"]["uid"],
        }
        for one in self._container.get("env", []):
            environment[one["name"]] = self._inside(one["value"])
        words = [self._inside(word) for word in [*self._container["command"], *self._container.get("args", [])]]
        with (self._folder / "log").open("wb") as log:
            process = subprocess.Popen(
                words,
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._say(phase="Running", containerStatuses=[{"name": "worker", "ready": True, "state": {"running": {}}}])
        threading.Thread(target=self._reap, args=(process,), daemon=True).start()
        reason = self._watch(process)
        self._ended(process.returncode, reason)

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        with self._cluster.changed:
            while kill_rest(self._pod["metadata"]["uid"]):
                self._cluster.changed.wait(0.02)
            self._gone = True
            self._cluster.changed.notify_all()

    def _watch(self, process: subprocess.Popen[bytes]) -> str:
        """Wait for the end of the process, which may be brought about; return the pod's reason for it."""
        deadline = self._pod["spec"].get("activeDeadlineSeconds")
        began, told, reason = time.monotonic(), None, ""
        with self._cluster.changed:
            while not self._gone:
                now = time.monotonic()
                late = deadline is not None and now >= began + deadline
                if (self._ends or late or self._cluster.closed) and told is None:
                    told, reason = now, "Evicted" if self._evicted else "DeadlineExceeded" if late else ""
                    with suppress(ProcessLookupError):
                        process.send_signal(signal.SIGTERM)  # the container's first process, and no other
                grace = 30 if self._grace is None else self._grace
                if told is not None and now >= told + (0 if self._evicted or self._cluster.closed else grace):
                    kill_rest(self._pod["metadata"]["uid"])
                self._cluster.changed.wait(0.1)
        return reason

    def _ended(self, code: int, reason: str) -> None:
        status = 128 - code if code < 0 else code
        said = {"exitCode": status, "reason": "Completed" if status == 0 else "Error"}
        words = {"Evicted": self._evicted, "DeadlineExceeded": "Pod was active on the node longer than the deadline"}
        more = {"reason": reason, "message": words[reason]} if reason else {}
        self._say(
            phase="Failed" if status or reason else "Succeeded",
            containerStatuses=[{"name": "worker", "ready": False, "state": {"terminated": said}}],
            **more,
        )


def kill_rest(uid: str) -> bool:
    """Kill all processes of a pod, as the kernel does when its first one has ended; return True if there were some."""
    mark = f"{MARK}={uid}".encode()
    found = False
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found = True
                    os.kill(int(entry.name), signal.SIGKILL)
    return found


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
