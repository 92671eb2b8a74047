"""All dialects, requests to write with them, and what their systems have printed."""

from pathlib import Path

from hypothesis import strategies as st

from grainlike.dialects import (
    BlockFile,
    BlockRequest,
    Dialect,
    GridEngineDialect,
    KubernetesDialect,
    LocalDialect,
    LSFDialect,
    PBSDialect,
    SlurmDialect,
    SSHDialect,
)

RECORDED = Path(__file__).parent / "recorded"

BATCH: dict[str, Dialect] = {
    "slurm": SlurmDialect(),
    "pbs": PBSDialect(),
    "torque": PBSDialect(torque=True),
    "lsf": LSFDialect(),
    "sge": GridEngineDialect(pe="mpi"),
}
ALL: dict[str, Dialect] = {
    **BATCH,
    "ssh": SSHDialect(),
    "local": LocalDialect(),
    "k8s": KubernetesDialect("me/worker:1"),
}


def recorded(name: str) -> str:
    """Return what a command printed."""
    return (RECORDED / name).read_text()


def request(**changes: object) -> BlockRequest:
    """Return a request with a bit of everything that all systems have."""
    usual: dict[str, object] = {
        "name": "gl1a2b3c4d-7",
        "label": "cpu-7",
        "directory": "/home/ann/state/gl1a2b3c4d-7",
        "access": "/home/ann/state/worker.json",
        "python": "/opt/py/bin/python3",
        "cores": 16,
        "memory": 60 * 2**30 + 256 * 2**20,
        "offer": "cores=16 memory=60Gi",
        "walltime_s": 14400,
        "host": "n1",
    }
    return BlockRequest(**{**usual, **changes})  # type: ignore[arg-type]


_words = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=20)
_paths = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters='"\\$:'), min_size=1, max_size=20
).map("/home/{}/x".format)
_lines = st.sampled_from(
    ["module load python", "defer rm -rf $TMPDIR/cache", "ulimit -n 4096", "  defer echo 'a b'", 'export A="$B"', ":"]
)


@st.composite
def requests(draw: st.DrawFn, nodes: int = 4) -> BlockRequest:
    """Draw requests with blanks, `%`, quotes and `|` wherever a user's words may have them."""
    folder = draw(_paths)
    return request(
        directory=folder,
        access=f"/etc/{draw(_words)}",
        python=f"/{draw(_words)}",
        cores=draw(st.integers(0, 64)),
        memory=draw(st.sampled_from([0, 1, 2**30 + 1])),
        gpus=draw(st.integers(0, 4)),
        offer=draw(st.sampled_from(["", "cores=2", "cores=16 memory=60Gi token=it's"])),
        nodes=draw(st.integers(1, nodes)),
        walltime_s=draw(st.one_of(st.none(), st.integers(1, 10**7))),
        queue=draw(st.sampled_from(["", "short", "all.q@n1", "a queue"])),
        account=draw(st.sampled_from(["", "p17"])),
        env=tuple(draw(st.lists(st.tuples(st.sampled_from(["A", "B_2"]), _words), max_size=3))),
        setup=tuple(draw(st.lists(_lines, max_size=4))),
        scratch=draw(st.sampled_from(["", "/local/$USER", "/a b"])),
        wrap=draw(st.sampled_from(["", "apptainer exec 'my image.sif'"])),
    )


def delivered(folder: str) -> tuple[BlockFile, ...]:
    """Return an access file that is to be delivered."""
    return (BlockFile(f"{folder}/worker.json", '{"cluster": "1a2b"}'),)
