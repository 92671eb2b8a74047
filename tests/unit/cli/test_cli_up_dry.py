"""`grainlike up --dry` where the batch system would not take the block."""

from grainlike.cli.pools._choice import show_dry
from grainlike.errors import LaunchError


class Refused:
    """A pool whose batch system refuses its blocks."""

    def command(self):
        return ["sbatch"]

    def script(self):
        return "#!/bin/bash\n"

    async def check(self):
        raise LaunchError("sbatch: error: invalid partition specified: x")


def test_a_sentence_of_ours_stands_above_the_words_of_the_batch_system(capsys):
    assert show_dry(Refused(), as_json=False) == 1
    out, err = capsys.readouterr()
    assert out == "$ sbatch\n#!/bin/bash\n"
    assert err.splitlines() == [
        "grainlike: this block would not be taken now; the batch system, or the way to it, says:",
        "sbatch: error: invalid partition specified: x",
    ]
