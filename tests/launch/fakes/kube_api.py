#!/usr/bin/env python3
"""Fake API server of Kubernetes, over TLS on loopback; the pods of its Jobs are real processes.

README-kubernetes.md says how far it goes.

    kube_api.py FOLDER [--image NAME ...] [--cpus N] [--role FILE]

It writes FOLDER/kubeconfig and prints `ready`; it ends, with all pods, at SIGTERM or when its standard input closes.
"""

from __future__ import annotations

import argparse
import base64
import datetime
import json
import os
import re
import signal
import ssl
import sys
import threading
from contextlib import nullcontext, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

sys.path.insert(0, str(Path(__file__).parent))

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kube_cluster import API, VERSION, Cluster, Refusal

_PATH = re.compile(
    r"/(?:api/v1|apis/batch/v1)/namespaces/(?P<namespace>[^/]+)/(?P<kind>jobs|pods|secrets|events)"
    r"(?:/(?P<name>[^/]+)(?P<log>/log)?)?"
)
ADMIN = "admin"
_TOKENS = {"Bearer token-of-admin": ADMIN, "Bearer token-of-reader": "reader"}
_ALL = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]


class Silent(Exception):
    """No answer: the connection is closed instead."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - it is called so
        with (self.server.cluster.folder / "requests").open("a") as file:
            file.write(f"{format % args}\n")

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        parts = urlsplit(self.path)
        try:
            found = self._do(parts.path, dict(parse_qsl(parts.query)), body)
            self._reply(201 if self.command == "POST" else 200, found)
        except Silent:
            self.close_connection = True
        except Refusal as refusal:
            self._reply(refusal.code, refusal.body)

    def _reply(self, code: int, found: Any) -> None:
        text = found if isinstance(found, str) else json.dumps(found)
        data = text.encode()
        with suppress(OSError):
            self.send_response(code)
            self.send_header("Content-Type", "text/plain" if isinstance(found, str) else "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def _user(self) -> str:
        connection: Any = self.connection
        names = dict(pair[0] for pair in (connection.getpeercert() or {}).get("subject", ()))
        user = names.get("commonName") or _TOKENS.get(self.headers.get("Authorization", ""), "")
        if not user:
            raise Refusal(401, "Unauthorized", "Unauthorized")
        return user

    def _do(self, path: str, params: dict[str, str], body: bytes) -> Any:
        user = self._user()
        if path == "/version":
            return {"major": "1", "minor": "33", "gitVersion": f"v{VERSION}.0"}
        if path.startswith("/fake/"):
            return self.server.fault(path.removeprefix("/fake/"), params)
        place = _PATH.fullmatch(path)
        if place is None:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        namespace, kind, name = place["namespace"], place["kind"], place["name"]
        self._check_role(user, namespace, f"{kind}{place['log'] or ''}", bool(name))
        if self.command == "GET":
            return self._get(user, namespace, kind, name, bool(place["log"]), params)
        if self.command == "POST":
            return self._create(user, namespace, kind, params, body)
        policy, grace = params.get("propagationPolicy", "Background"), params.get("gracePeriodSeconds")
        names = [name] if name else [item["metadata"]["name"] for item in self._list(namespace, kind, params)]
        gone = []
        for one in names:
            with nullcontext() if name else suppress(Refusal):  # of a collection, some may have gone by now
                seconds = None if grace is None else int(grace)
                gone.append(self.server.cluster.delete(kind, namespace, one, policy=policy, grace=seconds))
        return gone[0] if name else {"kind": "List", "apiVersion": "v1", "items": gone}

    def _check_role(self, user: str, namespace: str, kind: str, named: bool) -> None:
        """Refuse what a user may not do."""
        group = "batch" if kind == "jobs" else ""
        verbs = {"GET": ("list", "get"), "POST": ("create", "create"), "DELETE": ("deletecollection", "delete")}
        verb = verbs[self.command][named]
        for rule in self.server.roles[user]:
            lists = (rule["apiGroups"], group), (rule["resources"], kind), (rule["verbs"], verb)
            if all(one in allowed or "*" in allowed for allowed, one in lists):
                return
        plural = f"{kind}.batch" if group else kind
        words = f'cannot {verb} resource "{kind}" in API group "{group}" in the namespace "{namespace}"'
        raise Refusal(403, "Forbidden", f'{plural} is forbidden: User "{user}" {words}')

    def _log(self, namespace: str, name: str, params: dict[str, str]) -> str:
        """Return the log of a container, which has to be named where there are several: its last lines, cut at the
        end.
        """
        containers = [one["name"] for one in self.server.cluster.get("pods", namespace, name)["spec"]["containers"]]
        if params.get("container", containers[0] if len(containers) == 1 else "") not in containers:
            raise Refusal(400, "BadRequest", f"a container name must be specified for pod {name}, one of: {containers}")
        lines = self.server.cluster.log(namespace, name).splitlines(keepends=True)
        last = lines[-int(params["tailLines"]) :] if "tailLines" in params else lines
        return "".join(last)[: int(params.get("limitBytes", 10**9))]

    def _get(self, user: str, namespace: str, kind: str, name: str | None, log: bool, params: dict[str, str]) -> Any:
        page = "" if name or user == ADMIN else self.server.take(f"page for {kind}")
        if page:
            return page
        if name and log:
            return self._log(namespace, name, params)
        if name:
            return self.server.cluster.get(kind, namespace, name)
        items = self._list(namespace, kind, params)
        at, most = int(params.get("continue", "0")), int(params.get("limit", "0")) or len(items) or 1
        more = {"continue": str(at + most)} if at + most < len(items) else {}
        return {
            "apiVersion": API[kind][0],
            "kind": f"{API[kind][1]}List",
            "metadata": more,
            "items": items[at : at + most],
        }

    def _list(self, namespace: str, kind: str, params: dict[str, str]) -> list[dict[str, Any]]:
        labels, fields = (
            dict(part.split("=", 1) for part in params.get(key, "").split(",") if part)
            for key in ("labelSelector", "fieldSelector")
        )
        return self.server.cluster.list(kind, namespace, labels, fields)

    def _create(self, user: str, namespace: str, kind: str, params: dict[str, str], body: bytes) -> Any:
        dry = params.get("dryRun") == "All"
        meets = not dry and user != ADMIN
        status = self.server.take(f"status of {kind}") if meets else ""
        if status:
            raise Refusal(int(status), "Fault", f"the fake answers {status}")
        hangs = kind == "jobs" and meets and self.server.take("hang")
        cut = kind == "jobs" and meets and self.server.take("cut")
        try:
            item = json.loads(body)
        except ValueError:
            raise Refusal(400, "BadRequest", "the body is no JSON") from None
        if not dry:
            with (self.server.cluster.folder / "created").open("a") as file:
                file.write(json.dumps([kind, item]) + "\n")
        if hangs:
            self.server.go_on.clear()
        made = self.server.cluster.create(kind, namespace, item, dry=dry)
        if hangs:
            self.server.go_on.wait()
        if cut:
            raise Silent
        return made


class Server(ThreadingHTTPServer):
    """The server, and which fault is next."""

    daemon_threads = True

    def __init__(self, cluster: Cluster, trust: ssl.SSLContext, role: list[Any]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.roles = {"grainlike": role, ADMIN: _ALL, "reader": [{**_ALL[0], "verbs": ["get", "list"]}]}
        self.cluster = cluster
        self.go_on = threading.Event()
        self._trust = trust
        self._faults: dict[str, str] = {}

    def get_request(self) -> tuple[ssl.SSLSocket, Any]:
        """Take a connection, whose first words are then read by its own thread."""
        plain, address = super().get_request()
        return self._trust.wrap_socket(plain, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of connections that are lost."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def fault(self, what: str, params: dict[str, str]) -> dict[str, str]:
        """Set a fault for the next request, or bring one about."""
        if what == "evict":
            self.cluster.evict("default", params["pod"])
        elif what == "go-on":
            self.go_on.set()
        elif what in ("hang", "cut"):
            self._faults[what] = "yes"
        elif what == "page":
            self._faults[f"page for {params['kind']}"] = "<html>Please sign in</html>"
        elif what == "status":
            self._faults[f"status of {params['kind']}"] = params["code"]
        else:
            raise Refusal(404, "NotFound", f"the fake knows no {what}")
        return {}

    def take(self, what: str) -> str:
        """Return a fault that is set, and forget it."""
        return self._faults.pop(what, "")


# --- certificates and configuration ----------------------------------------------------------------------------------


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key as text."""
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def certificate(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: str, by: ec.EllipticCurvePrivateKey, *, ca: bool = False
) -> bytes:
    """Return a certificate of a day."""
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
    )
    if not ca:
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def write_configuration(folder: Path, port: int, authority: bytes, proof: tuple[bytes, bytes]) -> None:
    """Write the kubeconfig: contexts `fake` (a client certificate), `token`, `team`, `reader` and `stranger`."""

    def data(text: bytes) -> str:
        return base64.b64encode(text).decode()

    users = {
        "fake": {"client-certificate-data": data(proof[0]), "client-key-data": data(proof[1])},
        "token": {"token": "token-of-admin"},
        "reader": {"token": "token-of-reader"},
        "stranger": {"token": "guessed"},
    }
    contexts = [{"name": name, "context": {"cluster": "fake", "user": name}} for name in users]
    contexts.append({"name": "team", "context": {"cluster": "fake", "user": "token", "namespace": "team"}})
    server = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": data(authority)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "fake",
        "clusters": [{"name": "fake", "cluster": server}],
        "users": [{"name": name, "user": user} for name, user in users.items()],
        "contexts": contexts,
    }
    (folder / "kubeconfig").write_text(json.dumps(config))  # JSON is YAML


def main() -> None:
    """Serve until told to end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--image", action="append", default=[])
    parser.add_argument("--cpus", type=int, default=4)
    parser.add_argument("--role", type=Path)
    options = parser.parse_args()
    folder: Path = options.folder
    ours, server_key, client_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    authority = certificate("fake", ours, "fake", ours, ca=True)
    (folder / "server.pem").write_bytes(pem(server_key) + certificate("server", server_key, "fake", ours))
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(folder / "server.pem")
    trust.load_verify_locations(cadata=authority.decode())
    trust.verify_mode = ssl.CERT_OPTIONAL
    cluster = Cluster(folder, options.image or ["grainlike/worker:1"], options.cpus)
    role = json.loads(options.role.read_text()) if options.role else _ALL
    server = Server(cluster, trust, role)
    proof = certificate("grainlike", client_key, "fake", ours), pem(client_key)
    write_configuration(folder, server.server_port, authority, proof)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    print("ready", flush=True)
    ended.wait()
    server.go_on.set()
    cluster.close()
    os._exit(0)


if __name__ == "__main__":
    main()
