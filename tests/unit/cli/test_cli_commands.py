"""Commands and their requests, from the command line or the lines of a file."""

import pytest

from grainlike import parse
from grainlike.cli._commands import Command, read_commands, read_request

CORE = parse("cores=1")


def read(text, default="cores=1", *, lenient=False):
    warnings = []
    commands = read_commands(text.splitlines(), default, lenient=lenient, warn=warnings)
    return [(command.words, str(command.request)) for command in commands], warnings


def test_a_line_is_a_command_with_or_without_a_request_of_its_own():
    text = """
    # a comment, and an empty line

    ./train.py --seed 1   # the rest of a line too
    -r gpu0=1 -- ./train.py "two words"
    --request 'gpu1=1' -r cores=2 ./train.py -r 3
    -- -odd-program
    -r cores=1 env A=1 -- b
    fetch http://host/a#b '# no comment'# "#"
    """
    commands, warnings = read(text)
    assert commands == [
        (("./train.py", "--seed", "1"), "cores=1"),
        (("./train.py", "two words"), "gpu0=1"),
        (("./train.py", "-r", "3"), "cores=2 gpu1=1"),
        (("-odd-program",), "cores=1"),
        (("env", "A=1", "--", "b"), "cores=1"),
        (("fetch", "http://host/a#b", "# no comment#", "#"), "cores=1"),
    ]
    assert warnings == []


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("-r", "line 2: -r takes a request"),
        ("-r cores=1 --", "line 2: there is a request, but no command"),
        ("''", "line 2: there is a request, but no command"),
        ("-r cores -- true", "line 2: parts must be KEY=VALUE, but 'cores' is not"),
        ("-r cores=-1 -- true", "line 2: .*cores"),
        ("echo 'open", "line 2: No closing quotation"),
        ("-r cores=1 memory=5Gi -- a 'b c'", "line 2: .*quote it: -r 'cores=1 memory=5Gi' -- a 'b c'"),
        ("-r cores=1 -r a=1 | b=2 -- c", "line 2: .*quote it: -r 'cores=1 a=1 | b=2' -- c".replace("|", "[|]")),
    ],
)
def test_a_wrong_line_is_named(line, complaint):
    with pytest.raises(ValueError, match=complaint):
        read(f"true\n{line}\ntrue")


@pytest.mark.parametrize(("line", "sign"), [("a | b", "|"), ("a;b", ";"), ("a > b", ">"), ("a && b", "&&")])
def test_what_only_a_shell_understands_is_told(line, sign):
    commands, warnings = read(f"true\n{line}\nsh -c '{line}' \"{line}\"  # {line}")
    assert len(commands) == 3
    assert warnings == [f"line 2: no shell reads it, so {sign!r} goes to the program; write sh -c '...'"]


def test_a_command_that_asks_for_nothing_is_refused():
    with pytest.raises(ValueError, match="line 1: it asks for nothing: give -r TEXT"):
        read("true", default=None)


def test_k4_leniently_a_part_without_a_value_is_left_out_and_told():
    warnings = []
    request = read_request("foo=1 bar | x baz=2", lenient=True, warn=warnings)
    assert request == parse("foo=1 | baz=2")
    assert warnings == ["left out 'bar': parts must be KEY=VALUE", "left out 'x': parts must be KEY=VALUE"]


def test_a_command_is_shown_as_a_shell_would_take_it():
    assert str(Command(("echo", "two words", "$HOME"), CORE)) == "echo 'two words' '$HOME'"
