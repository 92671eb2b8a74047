"""Scripts of blocks: every shell reads them, and what was written into them is read back."""

import re
import shlex
import subprocess
from dataclasses import replace

import pytest
from dialects_here import ALL, BATCH, delivered, request, requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grainlike.dialects import BlockRequest, Dialect

PREFIX = {"slurm": "#SBATCH ", "pbs": "#PBS ", "torque": "#PBS ", "lsf": "#BSUB ", "sge": "#$ "}


def directives(dialect: Dialect, block: BlockRequest, kind: str) -> list[list[str]]:
    """Return the words of a script's directives, as batch systems read them: before the first command, in quotes."""
    lines = dialect.script(block).splitlines()
    head = lines[1 : lines.index("")]
    assert all(line.startswith(PREFIX[kind]) for line in head)
    return [shlex.split(line.removeprefix(PREFIX[kind])) for line in head]


def flat(dialect: Dialect, block: BlockRequest, kind: str) -> list[str]:
    return [" ".join(words) for words in directives(dialect, block, kind)]


def assert_bash_reads(text: str) -> None:
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), text


few = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@few
@given(requests(), st.data())
def test_bash_reads_every_script_of_a_batch_system(block: BlockRequest, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(BATCH)))
    dialect = BATCH[kind]
    block = replace(block, spread=data.draw(st.sampled_from(["", *dialect.spreads])))
    text = dialect.script(block)
    assert text.startswith("#!/bin/bash -l\n")
    assert_bash_reads(text)
    assert dialect.submit(block).stdin == text
    assert dialect.files(block)[-1].text == text
    for line in re.findall(r" bash -c (.*)$", text, re.MULTILINE):
        assert_bash_reads(shlex.split(line)[0])


@few
@given(requests(nodes=1), st.sampled_from(["ssh", "local"]))
def test_bash_reads_every_text_for_machines(block: BlockRequest, kind: str) -> None:
    dialect = ALL[kind]
    block = replace(block, deliver=delivered(block.directory))
    for text in (dialect.script(block), dialect.submit(block).stdin, dialect.end(["7:8"]).stdin):
        assert_bash_reads(text)
    assert_bash_reads(dialect.list("ann", "n1")[0].stdin)


@few
@given(requests())
def test_directives_are_read_back(block: BlockRequest) -> None:
    said = {kind: flat(dialect, block, kind) for kind, dialect in BATCH.items()}
    assert f"--job-name={block.name}" in said["slurm"]
    for kind, flag in {"pbs": "-N", "torque": "-N", "lsf": "-J", "sge": "-N"}.items():
        assert f"{flag} {block.name}" in said[kind]
    assert f"--output={block.log.replace('%', '%%')}" in said["slurm"]
    assert f"-o {block.log}.pbs" in said["pbs"]
    assert f"-o {block.log}.lsf" in said["lsf"]
    assert f"-o {block.log}" in said["sge"]
    assert f"--nodes={block.nodes}" in said["slurm"]
    if block.walltime_s is not None:
        hours, minutes, seconds = divmod(block.walltime_s, 3600)[0], block.walltime_s // 60 % 60, block.walltime_s % 60
        time = f"{hours}:{minutes:02}:{seconds:02}"
        assert f"--time={time}" in said["slurm"]
        assert f"-l walltime={time}" in said["pbs"]
        assert f"-l h_rt={time}" in said["sge"]
    for name, flags in {"queue": ("--partition=", "-q "), "account": ("--account=", "-A ", "-P ")}.items():
        value = getattr(block, name)
        for lines in said.values():
            found = [line for line in lines for flag in flags if line == f"{flag}{value}"]
            assert len(found) == (1 if value else 0)


def test_amounts() -> None:
    block = request(gpus=2, nodes=2)
    slurm = flat(BATCH["slurm"], block, "slurm")
    assert {"--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=16", "--mem=61696M", "--gres=gpu:2"} <= {*slurm}
    assert {"--no-requeue", "--no-kill"} <= {*slurm}
    pbs = flat(BATCH["pbs"], block, "pbs")
    assert {"-l select=2:ncpus=16:mem=61696mb:ngpus=2:mpiprocs=1", "-l place=scatter", "-r n"} <= {*pbs}
    torque = flat(BATCH["torque"], block, "torque")
    assert {"-l nodes=2:ppn=16:gpus=2", "-l mem=123392mb"} <= {*torque}
    lsf = flat(BATCH["lsf"], block, "lsf")
    assert {"-n 32", "-R span[ptile=16]", "-M 61696MB", "-R rusage[mem=61696MB]", "-gpu num=2", "-W 4:00"} <= {*lsf}
    sge = flat(BATCH["sge"], block, "sge")
    assert {"-pe mpi 32", "-l h_vmem=3856M", "-l gpu=2", "-l h_rt=4:00:00", "-r n", "-notify"} <= {*sge}


def test_whole_nodes() -> None:
    whole = request(offer="", cores=0, memory=0)
    assert {"--exclusive", "--mem=0"} <= {*flat(BATCH["slurm"], whole, "slurm")}
    assert "-l place=scatter:exclhost" in flat(BATCH["pbs"], whole, "pbs")
    assert "-n" in flat(BATCH["torque"], whole, "torque")
    assert "-x" in flat(BATCH["lsf"], whole, "lsf")
    assert "-l exclusive=true" in flat(BATCH["sge"], whole, "sge")
    for dialect in BATCH.values():
        assert "--resources" not in dialect.script(whole)


def test_several_nodes_of_slurm() -> None:
    line = BATCH["slurm"].script(request(nodes=3)).splitlines()[-1]
    assert line.startswith(
        "srun --overlap --export=ALL -N 3 -n 3 --ntasks-per-node=1 -c 16 --no-kill --kill-on-bad-exit=0 bash -c "
    )


REPLACED = {
    "slurm": ([["--mem=4G"], ["--mem-per-cpu", "1G"], ["--mem-per-gpu=1"]], "--mem=61696M"),
    "torque": ([["-l", "mem=4gb"], ["-lpmem=1gb"]], "-l mem=61696mb"),
    "lsf": ([["-M", "4GB"], ["-R", "select[big] rusage[mem=4GB]"]], "-M 61696MB"),
    "sge": ([["-l", "h_vmem=1G"], ["-l", "fast=1,mem_free=1G"]], "-l h_vmem=3856M"),
}


@pytest.mark.parametrize(
    ("kind", "native"), [(kind, native) for kind, (all_, _) in REPLACED.items() for native in all_]
)
def test_native_memory_replaces_ours(kind: str, native: list[str]) -> None:
    dialect, ours = BATCH[kind], REPLACED[kind][1]
    dialect.check_native(native)
    assert ours in flat(dialect, request(), kind)
    lines = flat(dialect, request(native=tuple(native)), kind)
    assert ours not in lines
    assert " ".join(native) in lines


@pytest.mark.parametrize("native", [["--gres=gpu:a100:1"], ["--gpus", "2"], ["-G2"], ["--gpus-per-node=1"]])
def test_native_gpus_replace_ours(native: list[str]) -> None:
    assert not [
        line for line in flat(BATCH["slurm"], request(gpus=2, native=tuple(native)), "slurm") if line == "--gres=gpu:2"
    ]


def test_native_exclusive_replaces_ours() -> None:
    whole = request(offer="", cores=0, memory=0, native=("--exclusive=user",))
    lines = flat(BATCH["slurm"], whole, "slurm")
    assert "--exclusive" not in lines
    assert "--exclusive=user" in lines


CLASHES = {
    "slurm": [
        *(
            [
                "--nodes=3",
                "-N3",
                "-N|3",
                "--ntasks=2",
                "-n|2",
                "--ntasks-per-node=2",
                "--array=1-3",
                "-a|1-3",
                "--time=1",
                "-t|5",
                "-t5",
            ]
        ),
        *(
            [
                "--output=x",
                "-ox",
                "-o|x",
                "--error=x",
                "-e|x",
                "--job-name=x",
                "-J|x",
                "-Jx",
                "--requeue",
                "--wrap=x",
                "--cpus-per-task=2",
                "-c2",
            ]
        ),
        *(
            [
                "--node=3",
                "--arr=1",
                "--tim=5",
                "--job=x",
                "--req",
                "-HN3",
                "--parsable",
                "--wait",
                "-W",
                "--test-only",
                "--clusters=all",
                "-M|all",
            ]
        ),
        *(["--qos=normal|--time=5", "--uid=7"]),
    ],
    "pbs": [
        *(
            [
                "-N|x",
                "-Nx",
                "-l|walltime=1",
                "-lwalltime=1",
                "-l|select=2",
                "-l|nodes=2:ppn=3",
                "-l|ncpus=2",
                "-l|place=pack",
                "-o|x",
                "-e|x",
            ]
        ),
        *(
            [
                "-j|oe",
                "-J|1-3",
                "-t|1-3",
                "-r|y",
                "-h",
                "-I",
                "-z",
                "-S|/bin/sh",
                "-W|block=true",
                "-l|mem=1gb,walltime=1",
                "-k|oe",
            ]
        ),
    ],
    "lsf": [
        *(
            [
                "-n|4",
                "-R|span[hosts=1]",
                "-W|5",
                "-o|x",
                "-oo|x",
                "-e|x",
                "-eo|x",
                "-J|x",
                "-J|x[1-3]",
                "-r",
                "-rn",
                "-I",
                "-Is",
                "-K",
                "-H",
            ]
        ),
        "-R|rusage[mem=1] span[ptile=1]",
    ],
    "sge": [
        *(
            [
                "-N|x",
                "-pe|mpi|4",
                "-l|h_rt=5",
                "-l|fast=1,s_rt=5",
                "-t|1-3",
                "-o|x",
                "-e|x",
                "-j|y",
                "-r|y",
                "-sync|y",
                "-now|y",
                "-terse",
                "-b|y",
            ]
        ),
    ],
    "ssh": [*["-N", "-f", "-n", "-W|h:1", "-T", "-t", "-Nv"]],
    "local": ["-x"],
    "k8s": ["--dry-run"],
}


@pytest.mark.parametrize(("kind", "words"), [(kind, words) for kind, all_ in CLASHES.items() for words in all_])
def test_a_native_flag_that_clashes_is_refused(kind: str, words: str) -> None:
    with pytest.raises(ValueError, match="native: ") as caught:
        ALL[kind].check_native(words.split("|"))
    assert words.split("|")[-1 if "qos" in words else 0][:2] in str(caught.value)


def test_a_refusal_names_our_option() -> None:
    for flag, ours in {"--nodes=3": "nodes", "-t5": "walltime", "--array=1-3": "max", "--wrap=x": "wrap"}.items():
        with pytest.raises(ValueError, match=f"write {ours} instead"):
            BATCH["slurm"].check_native([flag])


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (
            "slurm",
            ["--qos=normal", "--constraint=avx2", "-p", "debug", "--time-min=5", "-H", "--nodelist=n1", "-w", "n1"],
        ),
        ("slurm", ["--mail-type=END", "--exclude", "n[1-3]", "--reservation=r", "--comment", "a b", "-d", "after:7"]),
        ("pbs", ["-l", "ngpus=1", "-q", "fast", "-W", "group_list=g", "-m", "abe", "-p", "5", "-v", "A=1"]),
        ("lsf", ["-q", "fast", "-R", "select[avx2]", "-app", "x", "-m", "n1 n2", "-G", "g"]),
        ("sge", ["-l", "fast=1", "-q", "all.q", "-p", "-5", "-m", "n", "-V"]),
        ("ssh", ["-p", "2222", "-o", "ProxyJump=gate", "-i", "key", "-4v"]),
        ("local", []),
    ],
)
def test_other_native_flags_are_taken(kind: str, words: list[str]) -> None:
    ALL[kind].check_native(words)
    if kind in BATCH:
        assert all(word in " ".join(flat(BATCH[kind], request(native=tuple(words)), kind)) for word in words)


@pytest.mark.parametrize(
    "words", [["debug"], ["-p", "debug", "script.sh"], ["--"], ["--qos=a\n#SBATCH -N9"], ['--x="q"']]
)
def test_words_that_are_no_flags_are_refused(words: list[str]) -> None:
    with pytest.raises(ValueError, match=r"is no flag|line's end|cannot stand|goes? with|native"):
        BATCH["slurm"].check_native(words)


@given(st.lists(st.text(max_size=8), max_size=4))
def test_no_native_word_raises_anything_else(words: list[str]) -> None:
    for dialect in ALL.values():
        try:
            dialect.check_native(words)
        except ValueError:
            continue
        if dialect.kind not in ("ssh", "local", "k8s"):
            assert_one_line_each(dialect, words)


def assert_one_line_each(dialect: Dialect, words: list[str]) -> None:
    plain, more = (dialect.script(request(native=native)).splitlines() for native in ((), tuple(words)))
    assert len(more) - len(plain) <= len(words)


# --- a script of the user's own --------------------------------------------------------------------------------------

OWN = """#!/bin/bash
{{directives}}
{{env}}
{{ setup }}
echo {{label}} {{name}} {{walltime}} {{nodes}} {{cores}}
{{worker}}
{{defer}}
"""


@pytest.mark.parametrize("kind", BATCH)
def test_holes_of_an_own_script_are_filled(kind: str) -> None:
    block = request(script=OWN, env=(("A", "x y"),), setup=("module load p", "defer echo 1", "defer echo 2"))
    text = BATCH[kind].script(block)
    assert "{{" not in text
    assert "echo cpu-7 gl1a2b3c4d-7 4:00:00 1 16\n" in text
    assert "export A='x y'\nmodule load p\n" in text
    assert "--name cpu-7.0\necho 2\necho 1\n" in text
    assert_bash_reads(text)


@pytest.mark.parametrize("kind", ALL)
def test_an_own_script_of_several_nodes_or_machines(kind: str) -> None:
    nodes = 2 if kind == "slurm" else 1
    assert_bash_reads(ALL[kind].script(request(script=OWN, nodes=nodes)))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{{directives}}\n{{wroker}}\n{{worker}}", "did you mean {{worker}}"),
        ("{{directives}}\n{{worker}} {{zzz}}", "known are account, "),
        ("{{worker}}", "without {{directives}}"),
        ("{{directives}}", "without {{worker}}"),
        ("#SBATCH --time=5\n{{directives}}\n{{worker}}", "--time=5: write walltime instead"),
        ("{{directives}}\r\n{{worker}}\r\n", "Windows"),
    ],
)
def test_an_own_script_that_makes_no_block_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        BATCH["slurm"].script(request(script=text))


def test_braces_of_shells_are_no_holes() -> None:
    text = BATCH["slurm"].script(request(script="{{directives}}\necho {{a,b},c} ${x}\n{{worker}}"))
    assert "echo {{a,b},c} ${x}" in text


@pytest.mark.parametrize("path", ['/a"b', "/a\\b", "/a\nb"])
def test_paths_that_no_directive_can_have_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="cannot stand in a directive"):
        BATCH["slurm"].script(request(directory=path))


def test_blocks_of_several_nodes_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="is one machine"):
        ALL["ssh"].script(request(nodes=2))
    with pytest.raises(ValueError, match="spread = 'srun' or 'mpirun'"):
        BATCH["pbs"].script(request(nodes=2, script=OWN))
    with pytest.raises(ValueError, match="pe: "):
        type(BATCH["sge"])().script(request(cores=2))
