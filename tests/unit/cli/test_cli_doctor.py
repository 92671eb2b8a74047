"""`grainlike doctor` finds what would keep a worker and its head apart, and says what to do."""

import json
import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio.from_thread
import pytest
from limits import LIMIT_S
from msgspec.structs import replace

from grainlike.cli import _doctor, main
from grainlike.client import _introduction
from grainlike.errors import GrainlikeError
from grainlike.net import (
    Address,
    Link,
    accesses_for,
    listen,
    make_credentials,
    parse_address,
    publish_access,
    server_tls,
    software,
    state_directory,
)
from grainlike.wire import AcceptingHandshake, AskHead, Frame, HeadIs, Welcome

MADE = make_credentials("c1")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "grainlike"


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch) -> Iterator[Address]:
    """A head's door, in a thread of its own."""
    monkeypatch.setattr(_doctor, "_DIAL_S", LIMIT_S)
    own = software()

    async def meet(link: Link) -> None:
        def greet(frames: Sequence[Frame]) -> None:
            for frame in frames:
                if isinstance(frame.message, AskHead):
                    about = frame.message.ask, "c1", "0", own.python, 1, 0.0, 0, 1, {}
                    link.post(HeadIs(*about, serializers=own.serializers))
                    continue
                try:
                    hello = AcceptingHandshake(own, frozenset({"client"})).receive(frame.message)
                except GrainlikeError as error:
                    link.post(AcceptingHandshake.refusal(error))
                else:
                    link.post(Welcome("c1", 1.0, [], hello.name))

        await link.run(greet)

    with (
        listen("tcp://127.0.0.1:0", tls=server_tls("c1", MADE["head"])) as listener,
        anyio.from_thread.start_blocking_portal() as portal,
    ):
        serving = portal.start_task_soon(listener.serve, meet)
        yield listener.address
        portal.call(listener.close)
        serving.result(LIMIT_S)


def findings(capsys: pytest.CaptureFixture[str], code: int, *options: str) -> dict[str, list[dict[str, str]]]:
    """What it says of each thing, as JSON; and that it ends with this code."""
    assert main(["doctor", "--json", *options]) == code
    found: dict[str, list[dict[str, str]]] = {}
    for finding in json.loads(capsys.readouterr().out):
        found.setdefault(finding["what"], []).append(finding)
    return found


def test_where_nothing_listens_nothing_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(capsys, 0)
    assert {"versions", "TLS", "open files", "memory", "access files"} <= set(found)
    assert "head" not in found


def test_a_directory_that_others_may_read_keeps_heads_away(capsys: pytest.CaptureFixture[str]) -> None:
    state_directory().mkdir(parents=True, mode=0o755)
    (found,) = findings(capsys, 1)["state directory"]
    assert found["verdict"] == "bad"
    assert found["advice"] == f"chmod 700 {state_directory()}"
    with pytest.raises(PermissionError, match="open to other users"):
        publish_access(accesses_for("c1", (), MADE))


def test_a_head_that_answers_and_its_files_are_well(capsys: pytest.CaptureFixture[str], head: Address) -> None:
    publish_access(accesses_for("c1", (head,), MADE))
    found = findings(capsys, 0)
    assert found["head"] == [
        {"verdict": "ok", "what": "head", "found": f"that of cluster c1 answers at {head}", "advice": ""}
    ]
    assert [(one["verdict"], "days more" in one["found"]) for one in found["access file"]] == [("ok", True)] * 3
    assert found["clock"][0]["verdict"] == "ok"


def test_a_head_of_another_python_is_no_use_here(
    capsys: pytest.CaptureFixture[str], head: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = publish_access(accesses_for("c1", (head,), MADE))
    monkeypatch.setattr(_introduction, "software", lambda: replace(software(), python="3.99.1"))
    (found,) = findings(capsys, 1)["head"]
    assert found["verdict"] == "bad"
    assert f"the head has Python {software().python}, client" in found["found"]
    assert "has 3.99.1" in found["found"]
    assert "no worker or program of this Python" in found["advice"]
    (found,) = findings(capsys, 0, "--head", str(folder / "worker.json"))["head"]
    assert "when a worker starts" in found["advice"]


def test_what_a_killed_head_left_is_named(capsys: pytest.CaptureFixture[str], head: Address) -> None:
    folder = publish_access(accesses_for("c1", (head,), MADE))
    (folder / "head.lock").write_text(socket.gethostname())
    (found,) = [one for one in findings(capsys, 0)["access file"] if "was killed" in one["found"]]
    assert (found["verdict"], f"rm -r {folder}" in found["advice"]) == ("note", True)
    assert "(the current one)" in found["found"]


def test_memory_has_a_tier(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = findings(capsys, 0)["memory"]
    assert found["found"].startswith("kept by ")
    assert "(tier watchdog)" in found["found"] or "(tier cgroup)" in found["found"]


INFORMATION = """\
Model: \t\t NVIDIA H100 80GB HBM3
IRQ:   \t\t 58
GPU UUID: \t GPU-{uuid}
Video BIOS: \t 96.00.74.00.01
Bus Type: \t PCIe
DMA Size: \t 52 bits
DMA Mask: \t 0xfffffffffffff
Bus Location: \t 0000:{bus}:00.0
Device Minor: \t 0
GPU Firmware: \t 580.159.04
GPU Excluded:\t No
"""


def test_devices_are_named_in_the_order_of_their_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_doctor, "_NVIDIA", tmp_path / "gpus")
    assert "GPUs" not in findings(capsys, 0)
    for bus, uuid in (("3b", "later"), ("19", "sooner")):
        folder = tmp_path / "gpus" / f"0000:{bus}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(INFORMATION.format(bus=bus, uuid=uuid))
    (found,) = findings(capsys, 0)["GPUs"]
    h100 = "NVIDIA H100 80GB HBM3"
    assert found["found"] == f"2 of NVIDIA's: {h100} GPU-sooner, {h100} GPU-later"
    assert '"cores=4 gpus=2"' in found["advice"]


def test_another_head_at_its_address_is_not_taken_for_it(capsys: pytest.CaptureFixture[str], head: Address) -> None:
    publish_access(accesses_for("c1", (head,), make_credentials("c1")))
    (found,) = findings(capsys, 1)["head"]
    assert found["verdict"] == "bad"
    assert "certificate does not hold here" in found["found"]


def test_a_head_that_is_gone_is_found_with_words_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    publish_access(accesses_for("c1", (parse_address("tcp://127.0.0.1:1"),), MADE))
    assert main(["doctor"]) == 1
    told = capsys.readouterr().out
    assert "bad  head: nobody listens at tcp://127.0.0.1:1" in told
    assert "is that program still there" in told


def test_a_file_that_others_may_read_is_found_with_the_command_that_mends_it(
    capsys: pytest.CaptureFixture[str], head: Address
) -> None:
    path = publish_access(accesses_for("c1", (head,), MADE)) / "client.json"
    path.chmod(0o644)
    (bad,) = [one for one in findings(capsys, 1)["access file"] if one["verdict"] == "bad"]
    assert f"chmod 600 {path}" in bad["found"]


@pytest.mark.parametrize(("begin", "days", "verdict", "code"), [(-10, 5, "bad", 1), (-10, 11, "note", 0)])
def test_certificates_at_the_end_of_their_time_are_found(
    begin: int, days: int, verdict: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    old = make_credentials("c1", days=days, begin=datetime.now(UTC) + timedelta(days=begin))
    publish_access(accesses_for("c1", (), old))
    found = findings(capsys, code)
    assert [one["verdict"] for one in found["access file"]] == [verdict] * 3
    assert "has not listened yet" in found["head"][0]["found"]


@pytest.mark.parametrize(
    ("looks", "verdict", "drift"),
    [
        ((1100.0, 1103.0), "note", "-100 s"),
        ((890.0, 900.0), "note", "+100 s"),
        ((990.0, 1060.0), "ok", ""),  # the file server took a minute
        ((1000.1, 1000.2), "ok", ""),  # time stamps are a little behind
    ],
)
def test_a_clock_that_is_not_the_file_systems_is_found(
    looks: tuple[float, float],
    verdict: str,
    drift: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    state: Path,
) -> None:
    def stamped(**where: Any) -> Any:
        file = tempfile.NamedTemporaryFile(**where)  # noqa: SIM115 - its caller closes it
        os.utime(file.name, (1000.0, 1000.0))
        return file

    state.mkdir(mode=0o700)
    clock = iter(looks)
    monkeypatch.setattr(_doctor, "time", SimpleNamespace(time=lambda: next(clock)))
    monkeypatch.setattr(_doctor, "tempfile", SimpleNamespace(NamedTemporaryFile=stamped))
    (found,) = findings(capsys, 0)["clock"]
    assert (found["verdict"], found["found"].startswith(drift)) == (verdict, True)
    assert list(state.iterdir()) == []


def test_few_open_files_are_noted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda which: (256, 4096))
    (found,) = findings(capsys, 0)["open files"]
    assert (found["verdict"], found["advice"]) == ("note", "for many workers: ulimit -n 4096")


def test_a_head_that_was_asked_for_and_is_unknown_is_bad(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = findings(capsys, 1, "--head", "tcp://127.0.0.1:9")["head"]
    assert "no access file for tcp://127.0.0.1:9" in found["found"]
