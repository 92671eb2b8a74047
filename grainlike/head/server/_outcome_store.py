"""Outcomes of named calls on disk: what a session keeps beyond its share of memory, up to a budget.

Files are written and read in threads, one at a time, while the head continues; until a file is whole its outcome
stays in memory, and so it does where the disk refuses. With a journal the files are part of it: a head that is
started again finds them by the names and checksums in its records.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from zlib import crc32

import anyio
import anyio.lowlevel
import anyio.to_thread

from grainlike._private import ANY_ACCESS, create_in, folder, open_in
from grainlike.head.server._sessions import KEPT_BYTES, KeptFile, NamedCall, Sessions
from grainlike.net import Link, hold_lock, is_left_behind, make_private_directory
from grainlike.wire import AskOutcome, Buffer, OutcomeIs, Outcomes, Unable, encode_frame

__all__ = ["OutcomeStore"]

logger = logging.getLogger("grainlike")

LOOK_S = 0.25
"""Seconds between checks of whether there is something to write or to remove."""

CHUNK = 256 * 1024
"""Bytes in one answer, and in one read."""

_WARN, _CALM = 0.8, 0.7
"""Parts of the budget at which a warning is logged, and below which the next one may be."""


class OutcomeStore:
    """The files of one head's sessions in `directory`, which is made when there is something to write.

    Args:
        sessions: gives the sessions of the head.
        directory: with `lasting` it stays after the head; else the head removes it, or the next one that finds it.
        budget: bytes of outcomes, in memory and on disk, at which no named call is taken any more; by default half of
            what is free there, and no less than one session keeps in memory.
        safe: returns when all inputs of the head so far are on disk: no file is removed before that.
    """

    def __init__(
        self,
        sessions: Callable[[], Sessions],
        directory: Path,
        budget: int | None,
        *,
        lasting: bool,
        safe: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint,
    ) -> None:
        self._sessions = sessions
        self.directory = directory
        self._lasting = lasting
        self._safe = safe
        self.budget: int = max(_free(directory) // 2, KEPT_BYTES) if budget is None else budget
        self.failure: OSError | None = None
        """Error for which outcomes stay in memory that were to be written."""
        self._warned = False
        self._open = ExitStack()
        self._is_open = False

    def refusal(self) -> str | None:
        """Return why no named call is taken at the moment; None while they are."""
        if self.failure is not None:
            return (
                f"outcomes of named calls cannot be written to {self.directory} ({self.failure}), so the head takes no "
                "new ones: make room there, or forget outcomes that you have"
            )
        used = self._sessions().size
        if used < self.budget:
            return None
        return (
            f"the outcomes of named calls take {used:,} of {self.budget:,} bytes, so the head takes no new ones: "
            "forget some (ex.forget, grainlike sessions end), or start the head with a larger --keep"
        )

    # --- while the head runs -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write what does not fit into memory, and remove what is wanted no more, until cancelled."""
        left = self._left_behind({file.name for file in self._sessions().files()})
        if left:
            await anyio.to_thread.run_sync(_remove_all, left)
        while True:
            await anyio.sleep(LOOK_S)
            await self.settle()

    async def settle(self) -> None:
        """Write and remove what is due now."""
        spill = self._sessions().spill
        gone, spill.gone = spill.gone, []
        await self._remove(gone)
        while spill.fresh:
            call, name = spill.fresh[0]
            outcome = call.outcome
            if outcome is not None and not isinstance(outcome, KeptFile) and not await self._move(call, name, outcome):
                break
            if spill.fresh and spill.fresh[0][0] is call:
                del spill.fresh[0]
        self._look_at_budget()

    async def _move(self, call: NamedCall, name: str, outcome: tuple[Outcomes, Sequence[Buffer]]) -> bool:
        """Put one outcome on disk; False where the disk refuses."""
        try:
            kept = await anyio.to_thread.run_sync(self._write, name, encode_frame(*outcome))
        except OSError as error:
            if self.failure is None:
                logger.error("outcomes of named calls stay in memory, and no new ones are taken: %s", error)
            self.failure = error
            return False
        if self.failure is not None:
            logger.warning("outcomes of named calls are written to disk again")
            self.failure = None
        if call.outcome is outcome:
            call.outcome = kept
        else:  # it was forgotten meanwhile
            await self._remove([name])
        return True

    def _write(self, name: str, pieces: Sequence[Buffer]) -> KeptFile:
        checksum = size = 0
        there, new = self._folder(), f".{name}.{secrets.token_hex(8)}"
        try:
            with os.fdopen(create_in(there, new), "wb") as file:
                for piece in pieces:
                    checksum = crc32(piece, checksum)
                    size += file.write(piece)
                file.flush()
                if self._lasting:
                    os.fsync(file.fileno())
            os.replace(new, name, src_dir_fd=there, dst_dir_fd=there)
            if self._lasting:
                os.fsync(there)
        except BaseException:
            with suppress(OSError):
                os.unlink(new, dir_fd=there)
            raise
        finally:
            os.close(there)
        return KeptFile(name, size, checksum)

    def _folder(self) -> int:
        make_private_directory(self.directory.parent)
        there = folder(self.directory, ANY_ACCESS, make=True)
        if not (self._is_open or self._lasting):
            self._open.enter_context(hold_lock(self.directory))
        self._is_open = True
        return there

    async def _remove(self, names: Sequence[str]) -> None:
        if names:
            await self._safe()
            await anyio.to_thread.run_sync(self._unlink, names)

    def _unlink(self, names: Sequence[str]) -> None:
        for name in names:
            with suppress(OSError):
                (self.directory / name).unlink()

    def _look_at_budget(self) -> None:
        used = self._sessions().size
        if used >= _WARN * self.budget and not self._warned:
            self._warned = True
            words = "the outcomes of named calls take %s of %s bytes; at that no new ones are taken: forget some"
            logger.warning(words, f"{used:,}", f"{self.budget:,}")
        elif used < _CALM * self.budget:
            self._warned = False

    # --- who asks ----------------------------------------------------------------------------------------------------

    async def tell(self, link: Link, question: AskOutcome, call: NamedCall | None) -> None:
        """Answer a question for an outcome, piece by piece, as fast as the other end reads."""
        outcome = None if call is None else call.outcome
        if call is None or outcome is None:
            link.post(Unable(question.ask, "this outcome is not kept any more"))
            return
        try:
            if isinstance(outcome, KeptFile):
                await self._tell_file(link, question, outcome)
            else:
                await self._tell_pieces(link, question, encode_frame(*outcome))
        except OSError as error:
            words = f"the outcome of {call.name!r} is lost: {self.directory} does not give it any more ({error})"
            logger.error("%s", words)
            link.post(Unable(question.ask, words))

    async def _tell_file(self, link: Link, question: AskOutcome, kept: KeptFile) -> None:
        path = self.directory / kept.name
        file = await anyio.to_thread.run_sync(self._open_kept, path)
        try:
            at = question.at
            while True:
                data = await anyio.to_thread.run_sync(os.pread, file, CHUNK, at)
                end = at + len(data) >= kept.size or not data  # a file that was cut is told by its checksum
                link.post(OutcomeIs(question.ask, at, data, end, kept.checksum))
                if end:
                    return
                at += len(data)
                await link.drain()
        finally:
            os.close(file)

    def _open_kept(self, path: Path) -> int:
        there = folder(self.directory, ANY_ACCESS)
        try:
            return open_in(there, path, ANY_ACCESS)
        finally:
            os.close(there)

    async def _tell_pieces(self, link: Link, question: AskOutcome, pieces: Sequence[Buffer]) -> None:
        checksum = await anyio.to_thread.run_sync(_checksum, pieces)
        size, at = sum(memoryview(piece).nbytes for piece in pieces), 0
        for data in _chunks(pieces):
            end = at + len(data) >= size
            if at >= question.at or end:
                link.post(OutcomeIs(question.ask, at, data, end, checksum))
                await link.drain()
            at += len(data)

    # --- before and after --------------------------------------------------------------------------------------------

    def _left_behind(self, wanted: set[str]) -> list[Path]:
        """Return the files that killed heads have left, or those of our own that are in no session."""
        with suppress(OSError):
            if self._lasting:
                return [path for path in self.directory.iterdir() if path.name not in wanted]
            return [path for path in self.directory.parent.iterdir() if is_left_behind(path)]
        return []

    def remove(self) -> None:
        """Remove all files: no session is left."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def close(self) -> None:
        """The head has ended. What does not outlive it is removed."""
        if not self._lasting and self._is_open:
            self.remove()
        with suppress(OSError):
            self._open.close()
        if not self._lasting and self._is_open:
            with suppress(OSError):  # another head's are there
                self.directory.parent.rmdir()


def _remove_all(paths: Sequence[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            if path.is_symlink() or not path.is_dir():
                path.unlink()
            else:
                shutil.rmtree(path, ignore_errors=True)


def _chunks(pieces: Sequence[Buffer]) -> Iterator[bytes]:
    for piece in pieces:
        view = memoryview(piece).cast("B")
        for start in range(0, view.nbytes, CHUNK):
            yield bytes(view[start : start + CHUNK])


def _checksum(pieces: Sequence[Buffer]) -> int:
    found = 0
    for piece in pieces:
        found = crc32(piece, found)
    return found


def _free(directory: Path) -> int:
    """Return the bytes that are free for us where a directory is, or will be."""
    for path in (directory, *directory.parents):
        with suppress(OSError):
            status = os.statvfs(path)
            return status.f_bavail * status.f_frsize
    return 0
