"""Records of a fleet on disk, for the head that comes after this one."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import msgspec

from grainlike.errors import JournalError
from grainlike.fleet import Block, EndedBlock, FleetRecords, PoolState
from grainlike.launch import WorkerPool, pool_from

__all__ = ["RecordsFile"]

_FORMAT = 1


class _Kept(msgspec.Struct, frozen=True):
    """Form of the file: the records, and each pool as settings would have it."""

    format: int
    at: float
    digest: str
    last_number: int
    pools: dict[str, dict[str, Any]]
    states: dict[str, PoolState]
    offers: dict[str, str]
    blocks: dict[str, Block]
    ended: dict[str, EndedBlock]


class RecordsFile:
    """File at `path` with the records of a fleet. It is replaced as a whole, synced, so that it is old or new.

    A journal would keep each event; this is small, and says what is there without a replay.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = b""

    def read(self) -> tuple[FleetRecords, dict[str, WorkerPool], dict[str, str], float] | None:
        """Return the records, the pools, what their workers offer, and the time of the last event; None without a file.

        Raises:
            JournalError: the file is damaged, or of another release.
        """
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JournalError(f"{self._path}: {error.strerror}") from error
        try:
            kept = msgspec.json.decode(data, type=_Kept)
            if kept.format != _FORMAT:
                raise ValueError(f"it has format {kept.format}, and {_FORMAT} is read here")
            pools = {name: pool_from(keys, name) for name, keys in kept.pools.items()}
            records = FleetRecords(kept.digest, last_number=kept.last_number)
        except (msgspec.MsgspecError, ValueError) as error:
            words = f"{self._path}, which has the blocks of workers of the head before, cannot be read: {error}"
            raise JournalError(words) from error
        records.pools, records.blocks, records.ended = kept.states, kept.blocks, kept.ended
        for state in kept.states.values():
            records.system(state.pool.system)
        for block in kept.blocks.values():
            records.system(block.system)
        return records, pools, kept.offers, kept.at

    def encode(
        self, records: FleetRecords, pools: dict[str, WorkerPool], offers: dict[str, str], at: float
    ) -> bytes | None:
        """Return the text of the file; None where it says what the last one did, but for the time."""
        kept = _Kept(
            _FORMAT,
            0.0,
            records.digest,
            records.last_number,
            {name: pool.settings() for name, pool in pools.items()},
            records.pools,
            offers,
            records.blocks,
            records.ended,
        )
        same = msgspec.json.encode(kept)
        if same == self._written:
            return None
        self._written = same
        return msgspec.json.encode(msgspec.structs.replace(kept, at=at))

    def write(self, data: bytes) -> None:
        """Replace the file.

        Raises:
            OSError: the disk refuses.
        """
        try:
            self._replace(data)
        except OSError:
            self._written = b""  # it is not there
            raise

    def _replace(self, data: bytes) -> None:
        fresh = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as opened:
                opened.write(data)
                opened.flush()
                os.fsync(opened.fileno())
            fresh.replace(self._path)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
