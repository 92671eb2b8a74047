"""As a new user would: two terminals, with homes of their own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from limits import LIMIT_S
from ports import free_port

from grainlike import Cores, Executor, delayed
from grainlike.net import read_access, state_directory

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def grainlike(home: Path, *arguments: object) -> "subprocess.Popen[str]":
    """Type a command in the terminal of whoever lives at `home`."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}",
        "XDG_STATE_HOME": str(home / "state"),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "grainlike", *map(str, arguments)],
        cwd=home,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


async def end_of(process: "subprocess.Popen[str]") -> tuple[int, str]:
    _, said = await anyio.to_thread.run_sync(lambda: process.communicate(timeout=LIMIT_S))
    return process.returncode, said


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("mine", "theirs"):
        (tmp_path / name).mkdir(mode=0o700)
    return tmp_path / "mine", tmp_path / "theirs"


async def test_g17_anothers_worker_cannot_join_and_a_copy_of_worker_json_lets_it(
    homes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, double: Callable[[int], int]
) -> None:
    mine, theirs = homes
    monkeypatch.setenv("XDG_STATE_HOME", str(mine / "state"))
    async with Executor(listen="tcp://127.0.0.1:0") as executor:
        by_default, by_address = (
            grainlike(theirs, "worker", "start", "--resources", "cores=[0]", *head)
            for head in ([], ["--head", executor.address])
        )
        for process, words in ((by_default, "no head is running here"), (by_address, "no access file for tcp://")):
            code, said = await end_of(process)
            assert (code, "Traceback" in said) == (3, False), said
            assert words in said
        assert executor.workers() == []

        copy = theirs / "worker.json"
        copy.write_bytes((state_directory() / "current" / "worker.json").read_bytes())
        copy.chmod(0o644)
        code, said = await end_of(grainlike(theirs, "worker", "start", "--head", copy))
        assert (code, f"chmod 600 {copy}" in said) == (3, True), said

        copy.chmod(0o600)
        worker = grainlike(theirs, "worker", "start", "--head", copy, "--resources", "cores=[0]")
        with anyio.fail_after(LIMIT_S):
            await executor.wait_for_workers(1)
            assert await (delayed(double) @ Cores(1))(4) == 8
    assert (await end_of(worker))[0] == 0


async def test_files_made_beforehand_and_split_bring_a_head_and_its_worker_together(
    homes: tuple[Path, Path], double: Callable[[int], int]
) -> None:
    mine, theirs = homes
    made = mine / "made"
    assert (await end_of(grainlike(mine, "access", "generate", "--directory", made)))[0] == 0
    async with Executor(listen="tcp://127.0.0.1:0", access=made / "head.json") as executor:
        copy = theirs / "worker.json"
        copy.touch(mode=0o600)
        copy.write_bytes((made / "worker.json").read_bytes())
        worker = grainlike(theirs, "worker", "start", "--head", copy, "--resources", "cores=[0]")
        with anyio.fail_after(LIMIT_S):
            await executor.wait_for_workers(1)
            assert await (delayed(double) @ Cores(1))(4) == 8
        first = executor.address
    assert (await end_of(worker))[0] == 0
    assert sorted(path.name for path in made.iterdir()) == ["client.json", "head.json", "worker.json"]

    # The same cluster again, elsewhere: a new head is told from an old address by nothing but its certificate.
    async with Executor(listen="tcp://127.0.0.1:0", access=made / "head.json") as executor:
        assert executor.address != first
        worker = grainlike(theirs, "worker", "start", "--head", made / "worker.json", "--resources", "cores=[0]")
        with anyio.fail_after(LIMIT_S):
            await executor.wait_for_workers(1)
    assert (await end_of(worker))[0] == 0


async def test_an_address_that_was_given_stays_beside_those_that_the_head_knows(homes: tuple[Path, Path]) -> None:
    port = free_port()
    made, ours = homes[0] / "made", f"tcp://127.0.0.1:{port}"
    given = ["--address", f"tcp://login1:{port}", "--address", "tcp://login1:1"]
    assert (await end_of(grainlike(homes[0], "access", "generate", "--directory", made, *given)))[0] == 0
    for _ in range(2):
        async with Executor(listen=ours, access=made / "head.json") as executor:
            assert executor.address == ours
        for role in ("head", "worker", "client"):
            told = read_access(made / f"{role}.json").addresses
            assert [str(address) for address in told] == [ours, f"tcp://login1:{port}"]


@pytest.mark.parametrize("role", ["worker", "client"])
async def test_only_a_head_can_listen(role: str, homes: tuple[Path, Path]) -> None:
    made = homes[0] / "made"
    assert (await end_of(grainlike(homes[0], "access", "generate", "--directory", made)))[0] == 0
    with pytest.raises(ValueError, match=f"the access file of a {role}; to listen takes the head.json"):
        async with Executor(listen="tcp://127.0.0.1:0", access=made / f"{role}.json"):
            pytest.fail("it opened")


@pytest.fixture
def double() -> Callable[[int], int]:
    """A function that travels by value: workers elsewhere have no tests to import."""
    return lambda x: 2 * x


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"access": "head.json"}, "go with listen="),
        ({"insecure": True}, "go with listen="),
        ({"listen": "tcp://127.0.0.1:0", "access": "head.json", "insecure": True}, "leave one of them out"),
    ],
)
async def test_options_that_do_not_go_together_are_refused_where_they_are_written(
    options: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Executor(**options)
