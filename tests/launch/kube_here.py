"""The fake Kubernetes as a process beside the tests: started, asked, and made to fail."""

import json
import ssl
import subprocess
import sys
import urllib.request
from base64 import b64decode
from pathlib import Path
from urllib.parse import urlencode

PROGRAM = Path(__file__).parent / "fakes" / "kube_api.py"
IMAGE = "grainlike/worker:1"


class KubeHere:
    """A fake Kubernetes of three nodes of four CPUs; `folder` has its kubeconfig and the files of its pods.

    Who asks it by default may do what `role` says, a list of rules.
    """

    def __init__(self, folder, role):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "role.json").write_text(json.dumps(role))
        words = [sys.executable, str(PROGRAM), str(folder), "--image", IMAGE, "--role", str(folder / "role.json")]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout.readline() == b"ready\n"
        self.kubeconfig = folder / "kubeconfig"
        cluster = json.loads(self.kubeconfig.read_text())["clusters"][0]["cluster"]
        self._server = cluster["server"]
        self._trust = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())

    def close(self):
        """End it with all its pods."""
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def say(self, path, method="GET", body=None, **params):
        """Return an answer of its API, as its administrator."""
        url = f"{self._server}{path}" + (f"?{urlencode(params)}" if params else "")
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(url, data, {"Authorization": "Bearer token-of-admin"}, method=method)
        with urllib.request.urlopen(asked, context=self._trust) as answer:
            return json.loads(answer.read())

    def items(self, kind, namespace="default"):
        """Return the objects of a kind."""
        group = "apis/batch/v1" if kind == "jobs" else "api/v1"
        return self.say(f"/{group}/namespaces/{namespace}/{kind}")["items"]

    def names(self, kind, namespace="default"):
        """Return the names of the objects of a kind."""
        return sorted(item["metadata"]["name"] for item in self.items(kind, namespace))

    def left(self):
        """Return what there is of Jobs, pods and Secrets, and which processes of pods run."""
        found = [name for kind in ("jobs", "pods", "secrets") for name in self.names(kind)]
        return [*found, *self.processes()]

    def processes(self):
        """Return the processes of pods."""
        mark = f"HOME={self.folder}/pods/".encode()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                ours = entry.name.isdecimal() and mark in (entry / "environ").read_bytes()
            except OSError:
                continue
            if ours:
                found.append(entry.name)
        return found

    def fault(self, what, **params):
        """Bring a fault about, or have the next request meet it: see README-kubernetes.md."""
        self.say(f"/fake/{what}", "POST", **params)

    def created(self, kind):
        """Return what it was told to create, oldest first."""
        path = self.folder / "created"
        text = path.read_text() if path.exists() else ""
        lines = text.rpartition("\n")[0].splitlines()  # the last may be half written
        return [item for one, item in map(json.loads, lines) if one == kind]

    def delete_all(self):
        """Delete what a test has left."""
        for name in self.names("jobs"):
            self.say(f"/apis/batch/v1/namespaces/default/jobs/{name}", "DELETE")
        for name in self.names("secrets"):
            self.say(f"/api/v1/namespaces/default/secrets/{name}", "DELETE")
