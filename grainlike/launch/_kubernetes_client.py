"""Client of Kubernetes: creates the Jobs of blocks, lists and deletes them, and reads the logs of their pods."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from grainlike.dialects import Answer, BlockFile, BlockRequest, ListedBlock, Listing
from grainlike.launch._batch_client import Submission, system_key
from grainlike.launch._block_files import FilePart, read_end, read_part, write_file
from grainlike.launch._context import KubernetesBlocks, LaunchContext
from grainlike.launch._kubernetes_session import ApiError, Reply, Session, within_time
from grainlike.launch._other_pools import Kubernetes

__all__ = ["KubernetesClient"]

logger = logging.getLogger("grainlike")

_LOGS = 20
"""Logs of pods that run which are fetched with one listing: those that were not for the longest time."""

_LOGS_S = 10.0
"""Seconds in which they are to be there."""

_LOG = {"container": "worker", "tailLines": "5000", "limitBytes": str(2**20)}
_KEPT = 1000
"""Ends of blocks that are remembered: each listing tells of them again, as one may not have been heard."""

_WARNINGS = {"fieldSelector": "type=Warning"}
_PAGES_OF_EVENTS = 4
_STRICT = {"fieldValidation": "Strict"}
_FOREGROUND = {"propagationPolicy": "Foreground"}


class KubernetesClient:
    """Client of the Kubernetes of `pool`, as `BatchClient` is of a batch system.

    Jobs that have ended are deleted, once their log is kept: a listing has them as `ending` until they have gone. They
    are recognized by the digest of the cluster. The access file is in a Secret that belongs to its Job.
    """

    def __init__(self, pool: Kubernetes, context: LaunchContext) -> None:
        self.pool = pool
        self._context = context
        self._dialect = pool.dialect()
        self._place = pool.context, pool.namespace
        # Pools of one Kubernetes share its listings, which one of their clients asks for.
        self._known = context.kubernetes.setdefault(system_key(pool, ""), KubernetesBlocks())
        self._read: dict[str, int] = {}
        """Listing at which the log of a block was read, by name."""
        self._listings = 0

    @property
    def title(self) -> str:
        """Name of the batch system, for people."""
        return self._dialect.title

    def directory(self, name: str) -> str:
        """Return the directory of a block, which is the head's: the manifest and a copy of the log are there."""
        return str(self._context.state / "blocks" / name)

    def log(self, name: str) -> str:
        """Return the path of a block's log."""
        return f"{self.directory(name)}/log"

    def remember(self, blocks: Iterable[tuple[str, str, str]]) -> None:
        """Take the blocks of an earlier client or head: nothing, as a listing has all that is to be known of them."""

    # --- submission --------------------------------------------------------------------------------------------------

    async def submit(self, name: str, label: str) -> Submission:
        """Create the Job of a block, and its Secret."""
        try:
            block = await anyio.to_thread.run_sync(self._request, name, label)
            script = self.pool.block_script(block)
            await anyio.to_thread.run_sync(write_file, Path(block.kept), script)
        except (ValueError, OSError) as error:
            return Submission(Answer("refused", words=str(error)), (), "")
        self._known.submitting.add(name)
        self._known.delivered.discard(name)  # an attempt that was refused may be made again
        try:
            answer = await within_time(*self._place, partial(self._create, block))
        except ApiError as error:
            answer = Answer(error.verdict, words=str(error))
        finally:
            self._known.submitting.discard(name)
        return Submission(answer, (), script)

    def _request(self, name: str, label: str) -> BlockRequest:
        return self.pool.block(
            name=name,
            label=label,
            directory=self.directory(name),
            access=str(self._context.access),
            environment=os.environ,
            deliver=(self._file(),),
        )

    def _file(self) -> BlockFile:
        return BlockFile("worker.json", self._context.access.read_text(encoding="utf-8"))

    async def _create(self, block: BlockRequest, api: Session) -> Answer:
        made = await api.ask("POST", "jobs", body=self._dialect.job(block), params=_STRICT)
        answer = self._dialect.answered(made.status, made.text, block.name)
        if answer.verdict != "accepted":
            return answer
        try:
            if not made.ok:  # it was there
                made = await api.ask("GET", "jobs", block.name)
            secret = await self._deliver(api, block, made.json())
        except ApiError:
            return answer  # the Job is there: the next listing delivers again
        if secret.verdict in ("waits", "refused"):
            self._known.delivered.add(block.name)
            await _delete(api, block.name)
            return secret
        return answer

    async def _deliver(self, api: Session, block: BlockRequest, job: dict[str, Any]) -> Answer:
        """Create the Secret of a Job; without one to own it, it would never be removed."""
        job_id = str((job.get("metadata") or {}).get("uid", ""))
        if not job_id:
            return Answer("unclear")
        made = await api.ask("POST", "secrets", body=self._dialect.secret(block, job_id), params=_STRICT)
        answer = self._dialect.answered(made.status, made.text, block.name)
        if answer.verdict == "accepted":
            self._known.delivered.add(block.name)
        return answer

    # --- listing -----------------------------------------------------------------------------------------------------

    async def listing(self) -> Listing:
        """Return the blocks that Kubernetes knows, of whichever cluster, but for those whose submission is under way.

        A Job without its Secret may still be refused, and its submitter has the answer before a listing has.
        """
        try:
            return await within_time(*self._place, self._list)
        except ApiError as error:
            return Listing(failed=str(error))

    async def _list(self, api: Session) -> Listing:
        self._listings += 1
        which = {"labelSelector": self._dialect.selector}
        jobs, reply = await api.all("jobs", "Job", which)
        pods: list[dict[str, Any]] = []
        if reply.ok:
            pods, reply = await api.all("pods", "Pod", which)
        if not reply.ok:
            return Listing(failed=self._dialect.answered(reply.status, reply.text, "").words)
        found = await self._blocks([*jobs, *pods], reply)
        if any(row.state in ("pending", "ended") for row in found):
            # Who may not read events has fewer words.
            warnings, _ = await api.all("events", "Event", _WARNINGS, _PAGES_OF_EVENTS)
            found = await self._blocks([*jobs, *pods, *warnings], reply)
        found = tuple(row for row in found if row.name not in self._known.submitting)
        own = {row.name: row for row in found if self._context.owns(row.name)}
        await self._keep_logs(api, list(own.values()), pods)
        for job in jobs:
            row = own.get(job["metadata"]["name"])
            if row is not None and row.state == "pending" and row.name not in self._known.delivered:
                await self._deliver_again(api, row.name, job)
            elif row is not None and row.state == "ended":
                self._remember(row)
                await _delete(api, row.name)
        ended = self._known.ended
        there = [replace(row, state="ending") if row.name in ended else row for row in found]
        listed = {row.name for row in there}
        return Listing((*there, *(row for name, row in ended.items() if name not in listed)))

    async def _blocks(self, items: Sequence[object], reply: Reply) -> tuple[ListedBlock, ...]:
        listing = await anyio.to_thread.run_sync(self._dialect.blocks, items, reply.now)
        return listing.blocks

    def _remember(self, row: ListedBlock) -> None:
        ended = self._known.ended
        ended.setdefault(row.name, row)
        while len(ended) > _KEPT:
            del ended[next(iter(ended))]

    async def _deliver_again(self, api: Session, name: str, job: dict[str, Any]) -> None:
        """Create the Secret of a Job which another head created, or which had none in time."""
        try:
            file = await anyio.to_thread.run_sync(self._file)
        except OSError:  # this head closes
            return
        label = self._dialect.label_of(job)
        block = BlockRequest(name=name, label=label, directory="", access="", python="", deliver=(file,))
        await self._deliver(api, block, job)

    # --- logs --------------------------------------------------------------------------------------------------------

    async def _keep_logs(self, api: Session, rows: Sequence[ListedBlock], pods: Sequence[dict[str, Any]]) -> None:
        """Keep the logs of blocks that have ended, and of some that run: they go with their pods."""
        ended = [row for row in rows if row.state == "ended" and row.name not in self._known.ended]
        runs = sorted((row for row in rows if row.state == "running"), key=lambda row: self._read.get(row.name, 0))
        # A node that does not answer, or a disk that is full, does not prevent a listing.
        with anyio.move_on_after(_LOGS_S):
            for row in [*ended, *runs[:_LOGS]]:
                self._read[row.name] = self._listings
                text = await self._fetch_log(api, row.name, pods)
                if text is not None:
                    with suppress(OSError):
                        await anyio.to_thread.run_sync(write_file, Path(self.log(row.name)), text)
        self._read = {row.name: self._read[row.name] for row in rows if row.name in self._read}

    async def _fetch_log(self, api: Session, name: str, pods: Sequence[dict[str, Any]]) -> str | None:
        """Return the log of a block, of several nodes one after the other; None if no pod has one."""
        texts: list[str] = []
        for pod in pods:
            if self._dialect.name_of(pod) == name:
                with suppress(ApiError):
                    said = await api.ask("GET", "pods", f"{pod['metadata']['name']}/log", params=_LOG)
                    texts += [said.text] if said.ok else []
        return "".join(texts) if texts else None

    async def read_log(self, name: str) -> str | None:
        """Return the end of a block's log; empty if its pods never had one."""
        return await anyio.to_thread.run_sync(read_end, Path(self.log(name))) or ""

    async def read_part(self, name: str, file: str, start: int) -> FilePart:
        """Return what a file of a block, `log` or `script`, has from a place on: of the log what is kept of it."""
        return await anyio.to_thread.run_sync(read_part, Path(self.directory(name), file), start)

    # --- the end -----------------------------------------------------------------------------------------------------

    async def end(self, natives: Sequence[str], *, kill: bool = False) -> None:
        """Delete Jobs with their pods and Secrets; with `kill`, pods whose node does not answer, too."""

        async def delete(api: Session) -> None:
            for native in natives:
                await _delete(api, native)
                if kill:
                    which = {"labelSelector": self._dialect.selector_of(native), "gracePeriodSeconds": "0"}
                    await api.ask("DELETE", "pods", params=which)

        with suppress(ApiError):  # a listing says what has gone, and who did not hear is told again
            await within_time(*self._place, delete)


async def _delete(api: Session, name: str) -> None:
    for kind, params in (("jobs", _FOREGROUND), ("secrets", {})):
        said = await api.delete(kind, name, params)
        if not said.ok:
            logger.warning("Kubernetes does not delete %s of %s: %s", kind, name, said.words)
