"""Named graphs: steps with names, the outcome of each, and what happens when one fails.

Placeholders and operators write down an expression. Some programs are rather a list of steps: load this, then fit
those, then send a message. A `Dag` is a mapping of names to placeholders to which such steps are added:

- `dag.add(name, fn, *args, request=..., cost=..., timeout=..., after=[...])` takes any callable. A placeholder among
  the arguments, as `dag["load"]`, is a step that must come first and whose value is passed; `after=` names steps that
  must come first, and passes nothing. A step without `request=` runs in the program's own process.
- `Dag.from_edges(functions, edges)` takes functions without arguments, and the order alone.
- A name that is given twice, one that is unknown, and a cycle raise an error where they are written.

`report = await dag.run()` runs all of it, and does not raise when a step fails: `report["fit"]` has how that step
ended (`succeeded`, `failed`, `skipped`, `timed_out` or `cancelled`), with its value or error, worker, slots and times.
When a step fails, `on_failure="fail_fast"`, the default, ends the whole run; `"continue"` skips only what needs it.
From a plain script, `run(dag.run, local=Cores(4))` is the whole program.

Of the steps that could start, those with the most work behind them go first, by their `cost=`, in any unit you like.

A placeholder runs at most once. So does a graph: run a second time, it reports the same outcomes. Build it in a
function, as here, to run it again.

It prints::

    steps: ['list', 'count json', 'count email', 'count asyncio', 'merge', 'top', 'notify']
    the longest path: ['list', 'count asyncio', 'merge', 'top', 'notify']
    7 succeeded
    the name that these packages use most: self
    notify came last: True
    the trace shows: ['core 0', 'core 1', 'no cores 1']
    count email failed, list succeeded, merge skipped, notify skipped, top skipped
    and with on_failure="continue": 3 succeeded
    why: count email: UnicodeDecodeError
    a step with a timeout: timed_out, and the one after it: skipped
    told on the way: list started, list done, count json started, count json done
    a cycle: these wait for each other: 'egg' -> 'hen' -> 'egg'
    never here: count: cores=64 can never be given: too few cores
"""

import importlib.util
import io
import json
import tempfile
import time
import tokenize
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from grainlike import Callbacks, Cores, Dag, Executor, GraphError, UnsatisfiableError, run

PACKAGES = {"json": 1.0, "email": 4.0, "asyncio": 6.0}
"""Packages of the standard library, and roughly how large each is."""


def list_files(packages: list[str]) -> dict[str, list[str]]:
    """Return the source files of each package: real data that every Python has."""
    found = {}
    for package in packages:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        found[package] = sorted(map(str, Path(spec.origin).parent.glob("*.py")))
    return found


def count_names(files: list[str]) -> Counter[str]:
    """Count how often each name is used; this is the work."""
    names: Counter[str] = Counter()
    for file in files:
        source = Path(file).read_text(encoding="utf-8")
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        names.update(token.string for token in tokens if token.type == tokenize.NAME)
    return names


def count_broken(files: list[str]) -> Counter[str]:
    """Fails as it would with a file that is no text."""
    b"\xff".decode("utf-8")
    return count_names(files)


def merge(counts: list[Counter[str]]) -> Counter[str]:
    return sum(counts, Counter())


def top(counts: Counter[str]) -> str:
    keywords = {"if", "def", "in", "return", "not", "None", "raise", "else", "is", "for", "import", "and", "or", "from"}
    return next(name for name, _ in counts.most_common() if name not in keywords)


def build(*, count_email: Callable[[list[str]], Counter[str]] = count_names, notify: Callable[[], object]) -> Dag:
    dag = Dag()
    files_ = dag.add("list", list_files, list(PACKAGES), request=Cores(1))
    for package, size in PACKAGES.items():
        count = count_email if package == "email" else count_names
        dag.add(f"count {package}", count, files_[package], request=Cores(1), cost=size)
    dag.add("merge", merge, [dag[f"count {package}"] for package in PACKAGES], request=Cores(1))
    dag.add("top", top, dag["merge"])
    dag.add("notify", notify, after=["top"])
    return dag


def rows_of(trace: Path) -> list[str]:
    events = json.loads(trace.read_text())["traceEvents"]
    return sorted({event["args"]["name"] for event in events if event["name"] == "thread_name"})


async def all_is_well() -> None:
    with tempfile.TemporaryDirectory() as folder:
        notes: list[float] = []
        dag = build(notify=lambda: notes.append(time.monotonic()))
        print("steps:", list(dag))
        print("the longest path:", dag.critical_path())

        report = await dag.run(trace=Path(folder, "trace.json"))  # open it in ui.perfetto.dev
        print(str(report).partition(" in ")[0])
        print("the name that these packages use most:", report["top"].value)
        print("notify came last:", len(notes) == 1)
        print("the trace shows:", rows_of(Path(folder, "trace.json")))
        dag.picture(Path(folder, "dag.svg"))


async def one_step_fails() -> None:
    report = await build(count_email=count_broken, notify=print).run()
    ended = [
        f"{name} {job.status}"
        for name, job in sorted(report.items())
        if name not in ("count asyncio", "count json")  # done, or not, when the other failed
    ]
    print(", ".join(ended))

    report = await build(count_email=count_broken, notify=print).run(on_failure="continue")
    print('and with on_failure="continue":', report.succeeded, "succeeded")
    for name, job in report.items():
        if job.status == "failed":
            print(f"why: {name}: {type(job.error).__name__}")


async def a_step_takes_too_long() -> None:
    dag = Dag()
    dag.add("endless", time.sleep, 3600, request=Cores(1), timeout=0.2)
    dag.add("next", print, "never printed", after=["endless"])
    report = await dag.run()
    print(f"a step with a timeout: {report['endless'].status}, and the one after it: {report['next'].status}")


async def told_on_the_way() -> None:
    """Callbacks may be `async def` as well, and an error in one is only logged."""
    told: list[str] = []
    callbacks = Callbacks(
        on_start=lambda name: told.append(f"{name} started"),
        on_complete=lambda name, _: told.append(f"{name} done"),
    )
    dag = Dag()
    files_ = dag.add("list", list_files, ["json"], request=Cores(1))
    dag.add("count json", count_names, files_["json"], request=Cores(1))
    await dag.run(callbacks=callbacks)
    print("told on the way:", ", ".join(told))


async def refused() -> None:
    try:
        Dag.from_edges({"egg": print, "hen": print}, [("egg", "hen"), ("hen", "egg")])
    except GraphError as error:
        print("a cycle:", error)

    dag = Dag()
    dag.add("list", list_files, ["json"])
    dag.add("count", count_names, [], request=Cores(64))
    try:
        await dag.run()  # nothing has started when this raises
    except UnsatisfiableError as error:
        print("never here:", str(error).partition(" (")[0])


async def main() -> None:
    async with Executor(local=Cores([0, 1])):
        await all_is_well()
        await one_step_fails()
        await a_step_takes_too_long()
        await told_on_the_way()
        await refused()


if __name__ == "__main__":
    run(main, local=None)
