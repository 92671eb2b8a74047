"""What is completed where: every command and option of the program, with a kind of value that somebody knows."""

import pytest
import typer

from grainlike.cli import main
from grainlike.cli._root import whole_app
from grainlike.cli.completion import SHELLS, script
from grainlike.cli.completion._program import COMMAND, DIRECTORY, FILE, NOTHING, commands
from grainlike.cli.completion._values import _QUESTIONS

PROGRAM = typer.main.get_command(whole_app())
KNOWN = {command.path: command for command in commands(PROGRAM)}


def test_every_value_has_a_kind_that_a_shell_or_the_program_knows():
    kinds = {kind for one in KNOWN.values() for kind in (*one.values.values(), *one.arguments)}
    chosen = {kind for kind in kinds if kind.startswith("=")}
    assert chosen == {"=debug info warning error", "=failed always", "=bash zsh fish"}
    assert kinds - chosen == {COMMAND, DIRECTORY, FILE, NOTHING, "head", *_QUESTIONS}


@pytest.mark.parametrize(
    ("path", "option", "kind"),
    [
        ("ls", "--head", "head"),
        ("ls", "--json", None),
        ("worker start", "--resources", "resource"),
        ("worker start", "--echo-output", None),
        ("head start", "--journal", "journal"),
        ("head start", "--keep", NOTHING),
        ("submit", "-r", "resource"),
        ("submit", "--file", FILE),
    ],
)
def test_options_that_take_values_and_flags_that_do_not(path, option, kind):
    assert option in KNOWN[path].options
    assert KNOWN[path].values.get(option) == kind


@pytest.mark.parametrize(
    ("path", "kinds", "repeats"),
    [
        ("explain", ["any-job"], False),
        ("cancel", ["job"], False),
        ("logs", ["any-job"], False),
        ("down", ["pool"], True),
        ("worker drain", ["worker"], True),
        ("blocks log", ["block"], False),
        ("sessions end", ["session"], False),
        ("journal check", ["journal"], False),
        ("up", ["new-pool", NOTHING], True),
        ("submit", [COMMAND], True),
    ],
)
def test_arguments(path, kinds, repeats):
    assert (KNOWN[path].arguments, KNOWN[path].repeats) == (kinds, repeats)


def test_what_is_hidden_is_not_offered():
    assert "--ready" not in KNOWN["head start"].options


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_every_command_and_option_and_is_printed(shell, capsys):
    text = script(shell, PROGRAM)
    quoted = [f"'{word}" for one in KNOWN.values() for word in (*one.words, *one.options)]
    assert [word for word in quoted if word not in text] == []
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == text


def test_a_shell_that_is_not_known_is_wrong_usage(capsys):
    assert main(["completion", "tcsh"]) == 2
    assert "tcsh" in capsys.readouterr().err


def test_names_of_resources_and_kinds_of_pools_take_no_head(capsys):
    assert main(["completion", "values", "resource"]) == 0
    assert {"cores=", "memory=", "gpus=", "limit:"} <= {
        line.split("\t")[0] for line in capsys.readouterr().out.split("\n")
    }
    assert main(["completion", "values", "new-pool"]) == 0
    assert "slurm\tkind of pools\n" in capsys.readouterr().out
