"""Sessions: jobs that outlive the program that submitted them.

The jobs of a connected program end with it. A sweep of a night should not end with the laptop that started it. So jobs
may belong to a *session*, which is a name::

    async with connect(session="sweep") as ex:
        r_ = ex.name("fit 1", (fit @ Cores(4))(data))

Leaving the block cancels nothing then, and neither does the death of the program. The next program that connects to the
session, today or tomorrow, finds under its name whatever was given one: `ex.placeholders()` is a dictionary of
placeholders, finished or not, to await, to ask `info` and `explain` about, to read `logs` of, or to `cancel`. The head
keeps outcomes until `await ex.forget("fit 1")`: 128 MiB of each session in memory, what is beyond on disk, from where
it is fetched when somebody awaits it (until then `info` says lazy). `head start --keep 20Gi` says how much that may be
in all; then calls with new names are refused, and say why.

What has no name runs on as well, and its outcome goes to nobody. A call with a name goes to the head with all calls
that it needs, so its graph runs to its end without the program. One program has a session at a time; another one is
told which. `grainlike sessions` lists them, `grainlike sessions end NAME` cancels and forgets.

Below, the first program is killed in the middle of its work.

It prints::

    the first program is killed; session sweep has 3 jobs
    the second program finds fit 1: running
    fit 1 gives 10
    fit 2 gives 20
    fit 3 gives 30
    the session is gone: no sessions
"""

import json
import subprocess
import sys
from pathlib import Path

import anyio

from grainlike import Cores, connect, delayed, info

GO = Path("go").absolute()


@delayed
async def fit(number: int) -> int:
    while not GO.exists():  # it takes as long as this tutorial wants
        await anyio.sleep(0.02)
    return 10 * number


async def first_program() -> None:
    async with connect(session="sweep") as ex:
        for number in (1, 2, 3):
            ex.name(f"fit {number}", (fit @ Cores(1))(number))
        with anyio.fail_after(30):
            while info(ex.placeholders()["fit 1"]).state != "running":
                await anyio.sleep(0.02)
        print("ready", flush=True)
        await anyio.sleep_forever()


async def second_program() -> None:
    async with connect(session="sweep") as ex:
        print("the second program finds fit 1:", info(ex.placeholders()["fit 1"]).state)
        GO.touch()
        for name, r_ in ex.placeholders().items():
            print(name, "gives", await r_)
            await ex.forget(name)


async def typed(*words: str) -> str:
    """What `grainlike WORDS...` prints in a terminal."""
    return (await anyio.run_process([sys.executable, "-m", "grainlike", *words])).stdout.decode()


async def killed() -> None:
    """Run the first program, and kill it while its jobs run."""
    async with await anyio.open_process([sys.executable, __file__, "first"], stderr=None) as program:
        assert program.stdout is not None
        await program.stdout.receive()
        program.kill()
    [left] = json.loads(await typed("sessions", "--json"))
    print(f"the first program is killed; session {left['name']} has {left['jobs']} jobs")


async def main() -> None:
    if sys.argv[1:] == ["first"]:
        return await first_program()
    await typed("head", "start", "--detach", "--listen", "tcp://127.0.0.1:0")
    worker = [sys.executable, "-m", "grainlike", "worker", "start", "--name", "n1", "--resources", "cores=2"]
    with subprocess.Popen([*worker, "--log-level", "warning"]):
        try:
            await killed()
            await second_program()
            print("the session is gone:", (await typed("sessions")).strip())
        finally:
            await typed("head", "stop")  # and with it the worker


if __name__ == "__main__":
    anyio.run(main)
