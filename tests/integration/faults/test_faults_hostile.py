"""Intruders at the door: none gets in, none is listened to, and whoever belongs there still can come."""

import contextlib
import logging
import os
import pickle
import random
import socket
import ssl
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import intruders
import pytest
from intruders import ENDED_BY_TIME, MEMBERS, STRANGERS, Burglary, Canary, Intruder, Registry
from limits import LIMIT_S
from msgspec.structs import replace

from grainlike import Cores, Executor
from grainlike.net import _tls, dial, parse_address, read_access, write_access
from grainlike.wire import FrameDecoder, Welcome
from grainlike_worker.daemon._introduction import introduction

pytestmark = pytest.mark.anyio

COUNT = int(os.environ.get("GRAINLIKE_TEST_HOSTILE", "300"))
SEED = int(os.environ.get("GRAINLIKE_TEST_SEED", "1"))

unpickled: list[object] = []
"""Every class and function that any unpickler of this process has looked up."""
_hooked = False


@pytest.fixture(autouse=True)
def watch_unpicklers() -> None:
    global _hooked
    if not _hooked:  # a hook stays for ever
        sys.addaudithook(lambda event, arguments: unpickled.append(arguments) if event == "pickle.find_class" else None)
        _hooked = True
    unpickled.clear()


@dataclass
class Scene:
    """A head, and what reaches the inside of it."""

    executor: Executor
    burglary: Burglary
    worker_file: Path
    decoded: list[int] = field(default_factory=list)
    """The size of everything that was fed to a frame decoder."""

    async def send_in(self, intruder: Intruder) -> None:
        with anyio.fail_after(LIMIT_S):
            await anyio.to_thread.run_sync(intruder, self.burglary)

    async def send_in_alone(self, intruder: Intruder) -> None:
        """Send in one whom his words end, unless time does: a busy machine must not end him before they are heard."""
        with pytest.MonkeyPatch.context() as patches:
            if intruder not in ENDED_BY_TIME:
                take_time(patches)
            await self.send_in(intruder)

    def check_unharmed(self, *, nothing_decoded: bool) -> None:
        if nothing_decoded:
            assert self.decoded == []
        assert self.executor.workers() == []
        assert unpickled == []
        assert not self.burglary.canary.exists()

    async def check_still_open(self) -> None:
        """Check that an honest worker is welcomed, however long a busy machine takes for it."""
        heard: list[object] = []
        with pytest.MonkeyPatch.context() as patient, anyio.fail_after(LIMIT_S):
            take_time(patient)
            link = await dial(read_access(self.worker_file))
            link.post(introduction("honest", Cores([0])))
            await link.run(lambda frames: (heard.extend(frames), link.close()))
        assert isinstance(heard[0].message, Welcome)


def take_time(patches: pytest.MonkeyPatch, seconds: float = LIMIT_S) -> None:
    """Let whoever comes take so long for a handshake."""
    patches.setattr("grainlike.net._listener._HANDSHAKE_S", seconds)
    patches.setattr("grainlike.head.server._accept.HANDSHAKE_S", seconds)


@contextlib.asynccontextmanager
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    take_time(monkeypatch, 0.3)
    decoded: list[int] = []
    feed = FrameDecoder.feed
    monkeypatch.setattr(FrameDecoder, "feed", lambda self, data: (decoded.append(len(data)), feed(self, data))[1])
    registry = Registry()
    for role in ("head", "worker"):
        write_access(registry.access(role), tmp_path / "town" / f"{role}.json")
    head, worker = tmp_path / "town" / "head.json", tmp_path / "town" / "worker.json"
    async with Executor(listen="tcp://127.0.0.1:0", access=head) as executor:
        burglary = Burglary(parse_address(executor.address), registry, tmp_path / "canary")
        yield Scene(executor, burglary, worker, decoded)


@pytest.mark.parametrize("intruder", STRANGERS, ids=lambda intruder: intruder.__name__)
async def test_a_stranger_is_not_even_listened_to(
    intruder: Intruder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene(tmp_path, monkeypatch) as place:
        await place.send_in_alone(intruder)
        place.check_unharmed(nothing_decoded=True)
        await place.check_still_open()
    check_said_once(caplog)


@pytest.mark.parametrize("intruder", MEMBERS, ids=lambda intruder: intruder.__name__)
async def test_who_has_a_certificate_is_refused_for_what_it_says(
    intruder: Intruder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene(tmp_path, monkeypatch) as place:
        await place.send_in_alone(intruder)
        place.check_unharmed(nothing_decoded=False)
        assert sum(place.decoded) < 4096
        await place.check_still_open()
    check_said_once(caplog)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_crowds_of_strangers_get_no_further_than_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many at random, eight at a time: `GRAINLIKE_TEST_HOSTILE` of them, drawn from `GRAINLIKE_TEST_SEED`."""
    dice = random.Random(SEED)
    crowd = [dice.choice(STRANGERS) for _ in range(COUNT)]
    print(f"seed {SEED}:", *(f"{name} {count}" for name, count in Counter(one.__name__ for one in crowd).items()))
    async with scene(tmp_path, monkeypatch) as place:
        at_a_time = anyio.CapacityLimiter(8)

        async def send_in(intruder: Intruder) -> None:
            async with at_a_time:
                await place.send_in(intruder)

        async with anyio.create_task_group() as tasks:
            for intruder in crowd:
                tasks.start_soon(send_in, intruder)
        place.check_unharmed(nothing_decoded=True)
        await place.check_still_open()


def check_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """The log has a line for it, without a traceback and without anything that writes on a terminal."""
    records = [record for record in caplog.records if record.levelno >= logging.WARNING]
    said = [record.getMessage() for record in records if "honest" not in record.getMessage()]
    assert len(said) == 1, said
    assert all(text.isprintable() for text in said)
    assert not any(record.exc_info for record in records)


async def test_a_crowd_of_the_silent_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene(tmp_path, monkeypatch) as place:
        take_time(monkeypatch)
        monkeypatch.setattr("grainlike.net._pending._PATIENCE_S", 0.1)
        address = place.burglary.address
        with contextlib.ExitStack() as stack:
            for _ in range(300):
                stack.enter_context(socket.create_connection((address.host, address.port)))
            await place.check_still_open()
            assert sum(size > 0 for size in place.decoded) <= 2, "the honest one's words alone were listened to"
    assert caplog.text.count("have yet to say who they are") == 1


@pytest.mark.parametrize("period", ["past", "future"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_worker_whose_time_is_over_or_has_not_come_is_told(
    period: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_worker: Callable[..., Any]
) -> None:
    """TLS 1.3 lets it finish its own part of the handshake first: the refusal comes with what it reads next."""
    async with scene(tmp_path, monkeypatch) as place:
        take_time(monkeypatch)
        registry = place.burglary.registry
        access = read_access(place.worker_file)
        write_access(
            replace(access, credentials=registry.issue("worker", getattr(registry, period))), place.worker_file
        )
        code, said = await start_worker(place.worker_file).exit()
        assert (code, "Traceback" in said) == (3, False), said
        assert "refused our certificate: " in said
        place.check_unharmed(nothing_decoded=True)


async def test_no_secret_is_in_what_others_can_see_of_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_worker: Callable[..., Any]
) -> None:
    async with scene(tmp_path, monkeypatch) as place:
        take_time(monkeypatch)
        key = read_access(place.worker_file).credentials.key.splitlines()[1]
        worker = start_worker(place.worker_file, first="import logging; logging.basicConfig(level=logging.DEBUG)")
        with anyio.fail_after(LIMIT_S):
            await place.executor.wait_for_workers(1)
        for name in ("cmdline", "environ"):
            assert key not in Path(f"/proc/{worker.pid}/{name}").read_text()  # noqa: ASYNC240
    assert key not in (await worker.exit())[1]


# --- the suite itself can see a hole ---


def no_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates are not looked at."""
    loosen(monkeypatch, verify_mode=ssl.CERT_NONE, check_hostname=False)
    monkeypatch.setattr(_tls, "role_of", lambda peer, cluster: "worker")


def certificates_are_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    loosen(monkeypatch, verify_mode=ssl.CERT_OPTIONAL)
    monkeypatch.setattr(_tls, "role_of", lambda peer, cluster: "worker")


def no_look_at_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tls, "role_of", lambda peer, cluster: "worker")


def old_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    loosen(monkeypatch, minimum_version=ssl.TLSVersion.TLSv1_2)


def any_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tls, "_speaks_our_protocol", lambda chosen: True)


def any_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """The introduction is believed, whatever the certificate says."""
    from grainlike.head.server import _accept

    listener = _accept.AcceptingHandshake
    monkeypatch.setattr(_accept, "AcceptingHandshake", lambda software, roles, proved: listener(software, roles, None))


def no_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener that falls back to plaintext."""
    monkeypatch.setattr("grainlike.head.server._endpoint._tls", lambda cluster, credentials: None)


def loosen(monkeypatch: pytest.MonkeyPatch, **settings: object) -> None:
    make = _tls.tls_context

    def loose(*arguments: object) -> ssl.SSLContext:
        context = make(*arguments)
        for name in sorted(settings):
            setattr(context, name, settings[name])
        return context

    monkeypatch.setattr(_tls, "tls_context", loose)


@pytest.mark.parametrize(
    ("hole", "intruder"),
    [
        (no_checks, intruders.no_certificate),
        (no_checks, intruders.foreign_authority),
        (no_checks, intruders.forged_authority),
        (no_checks, intruders.expired),
        (no_checks, intruders.not_yet_valid),
        (no_checks, intruders.a_heads_certificate),
        (certificates_are_optional, intruders.no_certificate),
        (no_look_at_the_name, intruders.another_clusters_name),
        (old_versions, intruders.old_tls),
        (any_protocol, intruders.another_protocol),
        (any_protocol, intruders.no_protocol),
        (any_role, intruders.a_client_as_worker),
        (no_tls, intruders.bare_frames),
        (no_tls, intruders.bare_pickle),
    ],
    ids=lambda part: part.__name__,
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_through_a_hole_in_the_checks_an_intruder_is_seen(
    hole: object, intruder: Intruder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hole(monkeypatch)
    async with scene(tmp_path, monkeypatch) as place:
        with pytest.raises(AssertionError):  # noqa: PT012
            await place.send_in_alone(intruder)  # members look for the refusal themselves
            place.check_unharmed(nothing_decoded=intruder in STRANGERS)


async def test_the_canary_sings_and_is_heard(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Canary(tmp_path / "canary")))
    assert (tmp_path / "canary").exists()
    assert unpickled
