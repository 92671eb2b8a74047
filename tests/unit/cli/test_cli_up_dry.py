"""`grainlike up --dry` where the batch system would not take the block, or cannot be asked."""

import json
import pickle

import pytest

from grainlike.cli.pools._choice import show_dry
from grainlike.errors import LaunchError
from grainlike.launch import Slurm


class Refused:
    """A pool whose batch system refuses its blocks."""

    def command(self):
        return ["sbatch"]

    def script(self):
        return "#!/bin/bash\n"

    async def check(self):
        raise LaunchError("sbatch: error: invalid partition specified: x")


class Silent(Refused):
    """A pool whose batch system cannot be asked."""

    async def check(self):
        raise LaunchError("sbatch: error: Unable to contact slurm controller", answered=False)


def test_a_sentence_of_ours_stands_above_the_words_of_the_batch_system(capsys):
    assert show_dry(Refused(), as_json=False) == 1
    out, err = capsys.readouterr()
    assert out == "$ sbatch\n#!/bin/bash\n"
    assert err.splitlines() == [
        "grainlike: this block would not be taken now; the batch system, or the way to it, says:",
        "sbatch: error: invalid partition specified: x",
    ]


def test_a_batch_system_that_cannot_be_asked_has_refused_nothing(capsys):
    assert show_dry(Silent(), as_json=False) == 1
    assert capsys.readouterr().err.splitlines() == [
        "grainlike: the batch system could not be asked whether it would take this block; the way to it says:",
        "sbatch: error: Unable to contact slurm controller",
    ]
    assert show_dry(Silent(), as_json=True) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["taken"], told["answered"]) == (False, False)


@pytest.mark.parametrize(
    ("script", "answered"),
    [
        (None, False),
        ("echo sbatch: error: Unable to contact slurm controller >&2; exit 1", False),
        ("echo sbatch: fatal: Could not establish a configuration source >&2; exit 1", False),
        ("echo sbatch: error: invalid partition specified: x >&2; exit 1", True),
    ],
)
@pytest.mark.anyio
async def test_a_refusal_is_told_from_a_question_that_was_not_answered(script, answered, tmp_path, monkeypatch):
    if script is not None:
        (tmp_path / "sbatch").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError) as caught:
        await Slurm("cores=1", walltime="0:05:00").check()
    assert caught.value.answered is answered
    assert pickle.loads(pickle.dumps(caught.value)).answered is answered
