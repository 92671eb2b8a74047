"""Sessions with the API of Kubernetes: who we are there is found by kr8s, and each lasts for one question of ours.

A session is short on purpose. Tokens of service accounts and of programs that log in last for minutes, and are found
again each time; no connection is kept whose loss would not be seen. The question whether Kubernetes would take a block
is here, too.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import anyio
import anyio.to_thread

from grainlike.dialects import Answer, BlockRequest, KubernetesDialect, Verdict
from grainlike.errors import LaunchError
from grainlike.launch._native import NATIVE_S

if TYPE_CHECKING:
    import httpx
    from kr8s._auth import KubeAuth

__all__ = ["ApiError", "Reply", "Session", "ask_kubernetes", "within_time"]

_EXTRA = "pools of Kubernetes need more packages: pip install 'grainlike[kubernetes]'"

_T = TypeVar("_T")

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds who it is."""

_PAGE = 500
"""Objects that the API gives at a time."""

_NOT_FOUND = 404
_SHOWN = 200
_NONE: Mapping[str, str] = MappingProxyType({})


class ApiError(Exception):
    """Raised when there is no answer: `verdict` says what that means to something that was to be created."""

    def __init__(self, verdict: Verdict, words: str) -> None:
        super().__init__(words)
        self.verdict: Verdict = verdict


@dataclass(frozen=True, slots=True)
class Reply:
    """Reply of the API: HTTP status, text, and the time there."""

    status: int
    text: str
    now: datetime | None = None

    @property
    def ok(self) -> bool:
        """True if it was done."""
        return self.status < 300

    @property
    def words(self) -> str:
        """Message of a refusal."""
        return str(self.json().get("message") or f"HTTP status {self.status}")

    def json(self) -> dict[str, Any]:
        """Return the object that it is; an empty one if it is none."""
        try:
            found: object = json.loads(self.text)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


class Session:
    """Session with one API server, for objects of one namespace."""

    def __init__(self, client: httpx.AsyncClient, namespace: str, server_name: str | None) -> None:
        self.namespace = namespace
        self._client = client
        self._more: dict[str, Any] = {"extensions": {"sni_hostname": server_name}} if server_name else {}

    async def ask(
        self,
        method: str,
        kind: str,
        name: str = "",
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] = _NONE,
    ) -> Reply:
        """Send one request about a kind of objects, such as `jobs`, and return the reply, whatever it is.

        Raises:
            ApiError: there is none.
        """
        import httpx

        group = "apis/batch/v1" if kind == "jobs" else "api/v1"
        path = f"/{group}/namespaces/{quote(self.namespace, safe='')}/{kind}{f'/{name}' if name else ''}"
        content = None if body is None else json.dumps(body)
        try:
            said = await self._client.request(method, path, params=params, content=content, **self._more)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:  # nothing was sent
            raise ApiError("waits", f"no connection to {self._client.base_url}: {error or 'timed out'}") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            words = f"{self._client.base_url} gave no answer: {error or type(error).__name__}"
            raise ApiError("unclear", words) from error
        return Reply(said.status_code, said.text, _date(said.headers.get("date", "")))

    async def all(
        self, kind: str, singular: str, params: Mapping[str, str], pages: float = inf
    ) -> tuple[list[dict[str, Any]], Reply]:
        """Return all objects of a kind, each with its kind, and the last reply; that is bad if there are none.

        Of `pages` full ones, the rest is left out.

        Raises:
            ApiError: there is no answer.
        """
        found: list[dict[str, Any]] = []
        more = ""
        while True:
            page = {"limit": str(_PAGE), **params, **({"continue": more} if more else {})}
            reply = await self.ask("GET", kind, params=page)
            if not reply.ok:
                return [], reply
            listed = reply.json()
            items: object = listed.get("items", ())
            if listed.get("kind") != f"{singular}List" or not isinstance(items, list | None):
                # A page to sign in, of a proxy's, is no list without blocks.
                raise ApiError("unclear", f"{self._client.base_url} gave no list of {kind}: {reply.text[:_SHOWN]!r}")
            found += [{**item, "kind": singular} for item in items or () if isinstance(item, dict)]
            more = (listed.get("metadata") or {}).get("continue") or ""
            pages -= 1
            if not more or pages <= 0:
                return found, reply

    async def delete(self, kind: str, name: str, params: Mapping[str, str] = _NONE) -> Reply:
        """Delete an object; one that is not there is as good."""
        reply = await self.ask("DELETE", kind, name, params=params)
        return Reply(200, reply.text, reply.now) if reply.status == _NOT_FOUND else reply


def _date(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None


async def within_time(context: str, namespace: str, question: Callable[[Session], Awaitable[_T]]) -> _T:
    """Ask in a session, which has 30 s, in a context of the user's configuration; in a pod as its service account.

    Raises:
        ApiError: there was no answer; it is not known where Kubernetes is or who we are; or the extra is missing.
    """
    with anyio.move_on_after(NATIVE_S):
        async with _session(context, namespace) as api:
            return await question(api)
    raise ApiError("unclear", f"Kubernetes gave no answer within {NATIVE_S:g} s")


async def ask_kubernetes(dialect: KubernetesDialect, block: BlockRequest, script: str) -> str:
    """Return what Kubernetes says to a block that it would take, in a dry run.

    Raises:
        LaunchError: it would not take it, or gives no answer; `script` is its script.
    """

    async def try_both(api: Session) -> Answer:
        answer = Answer("refused")
        for kind, body in (("jobs", dialect.job(block)), ("secrets", dialect.secret(block, ""))):
            said = await api.ask("POST", kind, body=body, params={"fieldValidation": "Strict", "dryRun": "All"})
            answer = dialect.answered(said.status, said.text, block.name)
            if answer.verdict != "accepted":
                return answer
        return replace(answer, words=f"Kubernetes would take it, in namespace {api.namespace} (server dry run)")

    try:
        answer = await within_time(dialect.context, dialect.namespace, try_both)
    except ApiError as error:
        raise LaunchError(str(error), (), script) from error
    if answer.verdict not in ("accepted", "waits"):
        raise LaunchError(answer.words, (), script)
    return answer.words


@asynccontextmanager
async def _session(context: str, namespace: str) -> AsyncGenerator[Session]:
    try:
        httpx, kube_auth = await anyio.to_thread.run_sync(_load)
    except ImportError as error:
        raise ApiError("refused", f"{_EXTRA} ({error})") from error
    auth = kube_auth(context=context or None, serviceaccount=str(SERVICE_ACCOUNT))
    try:
        await auth
        trust = await auth.ssl_context()  # type: ignore[no-untyped-call]
        namespace = namespace or await anyio.to_thread.run_sync(_own_namespace, auth)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if auth.token:
            headers["Authorization"] = f"Bearer {auth.token.strip()}"
        client = httpx.AsyncClient(
            base_url=auth.server, headers=headers, verify=trust, timeout=NATIVE_S, proxy=auth.proxy
        )
    except RuntimeError as error:  # the program that logs in has failed: another time it may not
        raise ApiError("waits", f"Kubernetes: {error}") from error
    except Exception as error:  # there is no configuration, or a strange one, which raises anything
        words = str(error) if isinstance(error, ValueError | OSError) else repr(error)
        raise ApiError("refused", f"no way to Kubernetes: {words}") from error
    finally:
        _forget_keys(auth)
    try:
        yield Session(client, namespace, auth.tls_server_name)
    finally:
        with anyio.CancelScope(shield=True):
            await client.aclose()


def _load() -> tuple[Any, type[KubeAuth]]:
    import httpx
    from kr8s._auth import KubeAuth

    return httpx, KubeAuth


def _own_namespace(auth: KubeAuth) -> str:
    """Return the namespace of the context, or of the service account."""
    if auth.active_context:
        return auth.kubeconfig.get_context(auth.active_context).get("namespace") or "default"
    with suppress(OSError):
        return (SERVICE_ACCOUNT / "namespace").read_text(encoding="utf-8").strip() or "default"
    return "default"


def _forget_keys(auth: KubeAuth) -> None:
    """Remove the copies of keys and certificates that kr8s makes of a configuration with them in it, and leaves."""
    there = Path(tempfile.gettempdir())
    known = {str(value) for part in (auth._user, auth._cluster) for value in part.values()}
    for path in (auth.client_key_file, auth.client_cert_file, auth.server_ca_file):
        if isinstance(path, str) and path not in known and Path(path).parent == there:
            with suppress(OSError):
                Path(path).unlink()
