"""What a person types, and the exit codes and words that come back."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.models import CommandInfo

from grainlike import __version__
from grainlike.cli import main
from grainlike.cli._bench import load_benchmarks
from grainlike.cli._root import MODULES, KeepScratch, LogLevel, whole_app
from grainlike.net import accesses_for, make_credentials, publish_access, read_access
from grainlike_worker.__main__ import _parser

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("words", [["cache", "ls", "--json"], ["--help"], ["report", "--help"], ["--version"]])
def test_nobody_is_bothered_when_who_reads_has_had_enough(words: list[str]) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", "grainlike", *words]
    with os.fdopen(writes, "wb") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_disk_that_is_full_is_told_of_and_is_no_want_of_a_head() -> None:
    command = [sys.executable, "-m", "grainlike", "cache", "ls", "--json"]
    with Path("/dev/full").open("wb") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (1, "grainlike: [Errno 28] No space left on device\n")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["head", "wanted", "zzz"], "'zzz' is not"),
        (["head", "wanted", "\udcff"], "is not"),
        (["submit", "--run-once", "-r", "foo", "--", "true"], "-r: parts must be KEY=VALUE"),
        (["submit", "--run-once", "--resources", "foo", "-r", "cores=1", "--", "true"], "--resources: parts must be"),
    ],
)
def test_wrong_usage_is_told_of_with_its_option(
    line: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line) == 2
    assert words in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "line",
    [
        ["head", "start", "--listen", "tcp://127.0.0.1:0", "--journal"],
        ["head", "start", "--listen", "tcp://127.0.0.1:0", "--access"],
        ["journal", "check"],
        ["simulate", "--picture"],
        ["trace", "-o"],
    ],
)
def test_a_path_that_is_too_long_for_the_system_is_wrong_usage(
    line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*line, 300 * "x"]) == 2
    assert "x…: File name too long" in " ".join(capsys.readouterr().err.split())


def test_a_name_that_is_no_text_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worker", "start", "--name", "n\udcff"]) == 2
    assert "--name: 'n\\udcff' is not valid UTF-8" in capsys.readouterr().err


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """The options with which the worker was started: none is, here."""
    calls: list[dict[str, object]] = []

    def serve(**options: object) -> int:
        calls.append(options)
        return 3

    monkeypatch.setitem(sys.modules, "grainlike_worker.__main__", SimpleNamespace(serve=serve))  # type: ignore[arg-type]
    return calls


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"grainlike {__version__}\n"


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_shows_the_commands_in_groups_with_examples(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([option]) == 0
    shown = capsys.readouterr().out
    assert [word in shown for word in ("Run a cluster", "worker", "demo", "Examples", "grainlike demo")] == [True] * 5


@pytest.mark.parametrize("command", [["worker", "start"], ["demo"], ["simulate"], ["bench"]])
def test_each_command_has_examples_and_exit_codes(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"grainlike {' '.join(command)} --" in shown
    assert "Exit codes" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["wroker"], "wroker"),
        (["worker", "strat"], "strat"),
        (["worker", "start", "--haed", "x"], "--haed"),
        (["worker", "start", "extra"], "extra"),
        (["worker", "start", "--log-level", "loud"], "loud"),
        (["demo", "--workers", "-1"], "--workers"),
        (["simulate", "--jobs", "0"], "--jobs"),
        (["simulate", "--seconds", "nan"], "--seconds"),
        (["simulate", "--request", "cores"], "--request: parts must be KEY=VALUE"),
        (["simulate", "--resources", "gpus=0.5"], "whole devices"),
        (["simulate", "--picture", "run.png"], ".svg"),
        (["bench", "pol"], "did you mean pool?"),
        (["bench", "--workload", "trees"], "did you mean tree?"),
        (["bench", "--size", "7"], "--size belongs to one workload"),
        (["bench", "--rounds", "0"], "--rounds"),
        (["demo", "--picture", "run.png"], ".svg"),
        (["demo", "--picture", "/nowhere/at/all/run.svg"], "no folder"),
    ],
)
def test_wrong_usage_is_explained(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert "Traceback" not in told.err
    assert told.out == ""


def test_the_worker_has_the_same_options_for_a_person_and_for_a_script(served: list[dict[str, object]]) -> None:
    assert main(["worker", "start"]) == 3
    parser = _parser()
    assert vars(parser.parse_args([])) == served[0]
    options = [option for action in parser._actions for option in action.option_strings if option != "-h"]
    start = typer.main.get_command(whole_app()).commands["worker"].commands["start"]  # type: ignore[attr-defined]
    shown = [parameter for parameter in start.params if not parameter.hidden]  # `--detach` is there to be refused
    assert set(options) == {"--help", *(option for parameter in shown for option in parameter.opts)}
    page = (Path(__file__).parents[3] / "worker" / "README.md").read_text()
    assert [option for option in options if f"| `{option}" not in page] == ["--help"]
    allowed = {action.dest: list(action.choices) for action in parser._actions if action.choices}
    assert allowed == {"keep_scratch": [*map(str, KeepScratch)], "log_level": [*map(str, LogLevel)]}


def test_worker_start_hands_its_options_on_and_returns_the_workers_exit_code(served: list[dict[str, object]]) -> None:
    line = ["worker", "start", "--head", "tcp://h:1", "--resources", "cores=2", "--name", "n1"]
    line += ["--log-level", "error", "--insecure", "--context", "module:factory", "--echo-output", "--patience", "7"]
    line += ["--keep-scratch", "failed", "--idle", "0:10:00"]
    line += ["--store", "8Gi", "--scratch", "/scratch", "--scratch-limit", "100Gi", "--data", "off"]
    assert main(line) == 3
    assert main(["worker", "start"]) == 3
    assert served == [
        {
            "head": "tcp://h:1",
            "resources": "cores=2",
            "name": "n1",
            "log_level": "error",
            "context": "module:factory",
            "echo_output": True,
            "keep_scratch": "failed",
            "insecure": True,
            "wait": False,
            "patience": 7.0,
            "idle": "0:10:00",
            "store": "8Gi",
            "scratch": "/scratch",
            "scratch_limit": "100Gi",
            "data": "off",
        },
        {
            "head": None,
            "resources": None,
            "name": None,
            "log_level": "info",
            "context": None,
            "echo_output": False,
            "keep_scratch": None,
            "insecure": False,
            "wait": False,
            "patience": 300.0,
            "idle": None,
            "store": None,
            "scratch": None,
            "scratch_limit": None,
            "data": None,
        },
    ]


def test_a_worker_without_a_head_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["worker", "start"]) == 3
    assert "no head is running here" in capsys.readouterr().err


def test_a_worker_that_offers_nonsense_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worker", "start", "--resources", "cores"]) == 2
    assert "KEY=VALUE" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(typer.core, "_TyperParameter"), reason="an older typer converts values by click")
@pytest.mark.parametrize("command", ["explain", "cancel", "logs"])
@pytest.mark.parametrize("text", ["fit", "-3", "0", "1.5", "9" * 30, "\u0661x"])
def test_what_is_no_number_of_a_job_is_said_with_where_they_are_shown(
    command: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--", text]) == 2
    told = " ".join(capsys.readouterr().err.replace("\u2502", " ").split())
    assert f"{text!r} is no whole number from 1 to" in told
    assert "as `grainlike jobs --all` shows it" in told


@pytest.mark.skipif(not hasattr(typer.core, "_TyperParameter"), reason="an older typer converts values by click")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["jobs", "--most", "x"], "'x' is no whole number from 1 to 100,000"),
        (["up", "local", "-n", "-1"], "'-1' is no whole number of 0 at least"),
        (["ls", "--watch=x"], "'x' is no number"),
        (["head", "wanted", "cores=1", "--within", "nan"], "'nan' is no number from 0.1 to 1,000,000,000"),
    ],
)
def test_what_is_no_number_is_said_with_what_is_expected(
    line: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line) == 2
    assert words in " ".join(capsys.readouterr().err.replace("\u2502", " ").split())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["head", "start", "--journal", __file__], "is a file; a journal is a directory"),
        (["worker", "start", "--detach"], "`grainlike up local`, a unit of systemd, or `nohup"),
    ],
)
def test_what_cannot_be_started_so_is_told_how_it_can(
    line: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line) == 2
    assert words in " ".join(capsys.readouterr().err.replace("\u2502", " ").split())


def test_simulate_tells_how_long_it_would_take(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = ["simulate", "--jobs", "100", "--request", "cores=1", "--seconds", "2"]
    assert main([*line, "--workers", "4", "--resources", "cores=5", "--picture", str(tmp_path / "plan.svg")]) == 0
    assert capsys.readouterr().out.startswith("100 jobs in 10 s on 4 workers with 20 cores: 100.0% of the cores' time")
    assert (tmp_path / "plan.svg").read_text().startswith("<svg")


def test_simulate_tells_figures_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--jobs", "4", "--seconds", "1.5", "--resources", "cores=2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["jobs"] == 4
    assert told["makespan_s"] == 3.0
    assert told["utilisation"] == 1.0
    assert told["longest_queued_s"] == 1.5
    assert told["unsatisfiable"] == []


def test_simulate_is_refused_when_nobody_could_run_the_jobs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = ["simulate", "--jobs", "4", "--request", "cores=3", "--resources", "cores=2"]
    assert main([*line, "--picture", str(tmp_path / "plan.svg")]) == 3
    told = capsys.readouterr()
    assert "asked 3, at most 2" in told.out
    assert "nothing to draw" in told.err
    assert main([*line, "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["unsatisfiable"][0]["jobs"] == 4


def test_bench_prints_a_table_and_draws_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "bench.svg"
    line = ["bench", "pool", "--rounds", "1", "--workload", "trips", "--size", "3", "--picture", str(picture)]
    assert main(line) == 0
    out, err = capsys.readouterr()
    assert "ProcessPoolExecutor" in out
    assert "round 1 of 1: pool" in err
    assert "<svg" in picture.read_text()


def test_bench_tells_figures_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "pool", "--rounds", "1", "--workload", "trips", "--size", "3", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["figures"]["pool"]["p50"]) == 1


def test_bench_lists_what_can_be_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--list"]) == 0
    assert "ProcessPoolExecutor" in capsys.readouterr().out


@pytest.mark.parametrize("line", [["bench"], ["bench", "--list"], ["bench", "pool"]])
def test_bench_says_what_to_install_where_the_benchmarks_are_not(
    line: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "grainlike_bench"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Without("grainlike_bench"), *sys.meta_path])
    assert main(line) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "pip install ./benchmarks" in err


def test_benchmarks_that_miss_a_module_of_their_own_are_not_taken_for_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "grainlike_bench"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Without("grainlike_bench.compare._table"), *sys.meta_path])
    with pytest.raises(ModuleNotFoundError, match="_table"):
        load_benchmarks()


class _Without:
    """A finder for which a module is not installed."""

    def __init__(self, missing: str) -> None:
        self._missing = missing

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == self._missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_ctrl_c_is_an_exit_code_and_a_word(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(**options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("grainlike.cli.demo.demo", interrupted)
    assert main(["demo"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_the_demo_says_which_extra_it_misses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)  # as if it were not installed
    assert main(["demo", "--quick"]) == 3
    assert 'pip install "grainlike[demo]"' in capsys.readouterr().err


@pytest.mark.parametrize("line", ["--help", "demo --help", "--version"])
def test_help_loads_nothing_that_only_running_needs(line: str) -> None:
    program = (
        "import sys\nfrom grainlike.cli import main\n"
        f"assert main({line.split()!r}) == 0\nprint(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0
    loaded = set(done.stderr.split())
    assert "grainlike.cli._app" in loaded
    assert not loaded & {"anyio", "asyncio", "dill", "sklearn", "numpy", "grainlike.executor", "grainlike.graph"}


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("head --help", 0, "wanted"),
        ("head --help start", 0, "wanted"),
        ("head nosuch", 2, "No such command 'nosuch'"),
        ("head stat", 2, "Did you mean"),
        ("pools --head pause resume", 2, "Missing argument"),  # of `resume`: the head is called like a command
        ("worker drain --help", 0, "get no more"),
    ],
)
def test_a_group_has_the_commands_that_its_words_may_mean(
    line: str, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == code
    told = capsys.readouterr()
    assert words in " ".join((told.out + told.err).replace("│", " ").split())


def test_a_command_of_a_group_is_prepared_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[str] = []
    prepare = typer.main.get_command_from_info

    def noted(command_info: CommandInfo, **rest: Any) -> Any:
        prepared.append(str(command_info.name))
        return prepare(command_info, **rest)

    monkeypatch.setattr(typer.main, "get_command_from_info", noted)
    assert main(["head", "start", "--help"]) == 0
    assert prepared == ["start"]


def test_python_m_grainlike_is_the_same_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "grainlike", "--version"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, f"grainlike {__version__}\n")


# --- access files ---


def test_access_files_are_made_beforehand_for_each_role(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "cluster"
    options = ["--directory", str(folder), "--address", "tcp://login1:7777", "--cluster", "c1", "--days", "30"]
    assert main(["access", "generate", *options]) == 0
    shown = capsys.readouterr().out
    for role in ("head", "worker", "client"):
        access = read_access(folder / f"{role}.json")
        assert (access.cluster, access.role) == ("c1", role)
        assert [str(address) for address in access.addresses] == ["tcp://login1:7777"]
        assert str(folder / f"{role}.json") in shown
        assert "PRIVATE" not in shown
    assert f"grainlike head start --listen tcp://0.0.0.0:7777 --access {folder / 'head.json'}" in shown
    assert f'connect("{folder / "client.json"}")' in shown
    before = (folder / "head.json").read_text()
    assert main(["access", "generate", "--directory", str(folder)]) == 2
    told = capsys.readouterr().err.replace("│", " ")  # a long path moves the line's end to anywhere in the words
    assert "is there already" in " ".join(told.split())
    assert (folder / "head.json").read_text() == before


def test_access_files_are_beside_those_of_running_heads_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["access", "generate", "--cluster", "c1"]) == 0
    assert read_access(tmp_path / "grainlike" / "c1" / "worker.json").addresses == ()
    assert not (tmp_path / "grainlike" / "current").exists()
    # A program that listens later finds the directory as private as it wants it.
    assert publish_access(accesses_for("c2", (), make_credentials("c2"))) == tmp_path / "grainlike" / "c2"


@pytest.mark.parametrize(
    ("options", "listen"),
    [
        ([], "tcp://0.0.0.0:0"),
        (["--address", "tcp://login1:7777", "--address", "tcp://10.0.0.1:7777"], "tcp://0.0.0.0:7777"),
        (["--address", "unix:///run/us/head.sock"], "unix:///run/us/head.sock"),
    ],
)
def test_a_head_is_told_to_listen_where_workers_will_dial(
    options: list[str], listen: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["access", "generate", "--directory", str(tmp_path / "c"), *options]) == 0
    assert f'Executor(listen="{listen}", access=' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--address", "nowhere"], "an address is tcp://HOST:PORT"),
        (["--cluster", "../x"], "a cluster's name is"),
        (["--days", "0"], "0.01"),
    ],
)
def test_access_files_of_nonsense_are_not_made(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["access", "generate", "--directory", str(tmp_path / "c"), *options]) == 2
    assert words in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not (tmp_path / "c").exists()


def test_each_command_is_looked_for_in_the_module_that_adds_it() -> None:
    added: dict[str, set[str]] = {}
    program = whole_app()
    for command in program.registered_commands:
        assert command.callback is not None
        added.setdefault(command.callback.__module__, set()).add(str(command.name))
    for group in program.registered_groups:
        assert group.typer_instance is not None
        for command in group.typer_instance.registered_commands:
            assert command.callback is not None
            added.setdefault(command.callback.__module__, set()).add(str(group.name))
    assert {f"grainlike.cli.{module}": set(words) for module, words in MODULES.items()} == added
