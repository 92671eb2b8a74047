"""Listings of batch systems become facts: ours alone, in the states that are documented, and no text raises."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from dialects_here import ALL, RECORDED, recorded
from hypothesis import given
from hypothesis import strategies as st

from grainlike.dialects import CommandResult, ListedBlock, expand_hosts

OURS = "gl1a2b3c4d-"


def rows(kind: str, name: str) -> Mapping[str, ListedBlock]:
    """Our blocks in a recorded listing, by the number in their names."""
    listing = ALL[kind].listed(CommandResult(0, recorded(name), "warning: 50% | of\nyour quota\n"))
    assert listing.failed == ""
    return {block.name.removeprefix(OURS): block for block in listing.blocks}


def states(found: Mapping[str, ListedBlock]) -> dict[str, str]:
    return {number: f"{block.state} {block.reason}".strip() for number, block in found.items()}


def test_slurm() -> None:
    found = rows("slurm", "slurm-squeue-23.11.txt")
    assert states(found) == {
        "1": "running",
        "2": "pending Priority",
        "3": "pending QOSMaxJobsPerUserLimit",
        "4": "running CONFIGURING",
        "5": "ending COMPLETING",
        "6": "ended TIMEOUT: TimeLimit",
        "7": "ended CANCELLED",
        "8": "ended PREEMPTED",
        "9": "ended NODE_FAIL: NodeDown",
        "10": "running",
        "11": "unknown HIBERNATING",
        "12": "running SUSPENDED",
        "13": "pending Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
        "gl99887766-1": "pending PartitionDown",
    }
    assert found["1"] == ListedBlock("101", "gl1a2b3c4d-1", "running", "", 14352.0, ("n1",), "2026-11-23T14:20:00")
    assert found["2"].start == "2026-11-23T18:20:00"
    assert found["2"].left_s is None
    assert found["3"].start == ""
    assert found["10"].left_s is None
    assert found["10"].nodes == ("rack1-n001", "rack1-n002", "rack1-n003", "rack1-n010", "gpu1")


def test_old_slurm() -> None:
    found = rows("slurm", "slurm-squeue-17.11.txt")
    assert states(found) == {"1": "running", "2": "pending (Resources)", "3": "ended FAILED: NonZeroExitCode"}
    assert found["1"].left_s == 2 * 86400 - 1


@pytest.mark.parametrize("name", ["pbs-qstat-openpbs-23.06.json", "pbs-qstat-openpbs-23.06.txt"])
def test_openpbs(name: str) -> None:
    found = rows("pbs", name)
    assert found["1"].state == "running"
    assert (found["1"].native, found["1"].left_s, found["1"].nodes) == ("201.pbs1", 10800.0, ("n1", "n2"))
    assert found["1"].start == "Mon Nov 23 13:20:00 2026"
    assert found["2"].state == "pending"
    assert found["2"].reason.startswith("Not Running: ")
    assert found["2"].start == "Mon Nov 23 18:20:00 2026"
    assert "gl1a2b3c4d-4" not in {block.name for block in found.values()}  # an array


def test_openpbs_tells_how_blocks_ended() -> None:
    found = rows("pbs", "pbs-qstat-openpbs-23.06.json")
    assert {number: text for number, text in states(found).items() if number in "356"} == {
        "3": "ended exceeded resource walltime (exit code 271)",
        "5": "pending Job held by ann on Mon Nov 23 13:00:00 2026",
        "6": "unknown state ?",
    }


def test_openpbs_without_jobs_and_with_broken_json() -> None:
    assert rows("pbs", "pbs-qstat-openpbs-19.1-empty.json") == {}
    assert rows("pbs", "pbs-qstat-torque-6.1.txt").keys() == {"1", "2"}
    broken = ALL["pbs"].listed(CommandResult(0, recorded("pbs-qstat-openpbs-18.1-broken.json")))
    assert broken.failed
    assert len(ALL["pbs"].list("ann")) == 2  # and the second is plain text


def test_torque() -> None:
    found = rows("torque", "pbs-qstat-torque-6.1.txt")
    assert states(found) == {"1": "running", "2": "ended exit code 271"}
    assert (found["1"].left_s, found["1"].nodes) == (13800.0, ("n1", "n2"))


def test_lsf() -> None:
    found = rows("lsf", "lsf-bjobs-10.1.0.14.json")
    waits = "Job's requirements for resource reservation not satisfied: 4 hosts; Load information unavailable: 1 host"
    assert states(found) == {
        "1": "running",
        "2": f"pending {waits}",
        "3": "ended EXIT: TERM_RUNLIMIT: job killed after reaching LSF run time limit",
        "4": "unknown FROZEN",
        "5": "ended DONE: exit code 0",
    }
    assert (found["1"].left_s, found["1"].nodes) == (14340.0, ("n1", "n2"))
    assert found["2"].start == "Nov 23 18:20"


@pytest.mark.parametrize(("text", "left"), [("0:09 L", 540.0), ("0:9 L", 540.0), ("12:5 E", 43500.0), ("-", None)])
def test_lsf_may_write_minutes_with_one_digit(text: str, left: float | None) -> None:
    record = {"JOBID": "1", "JOB_NAME": "gl1a2b3c4d-1", "STAT": "RUN", "TIME_LEFT": text}
    (block,) = ALL["lsf"].listed(CommandResult(0, json.dumps({"RECORDS": [record]}))).blocks
    assert block.left_s == left


def test_lsf_without_jobs() -> None:
    assert rows("lsf", "lsf-bjobs-10.1.0.14-empty.json") == {}
    none = ALL["lsf"].listed(CommandResult(255, "", recorded("lsf-bjobs-10.1-none.err")))
    assert none.failed == ""
    assert none.blocks == ()


def test_grid_engine() -> None:
    found = rows("sge", "sge-qstat-8.1.9.xml")
    assert states(found) == {
        "1": "running",
        "2": "ending state dr",
        "3": "pending state qw",
        "4": "stuck state Eqw: it could not be started, as qacct -j 405 says (is its directory on the nodes?)",
        "5": "unknown state ?!",
    }
    assert found["1"].nodes == ("n1.cluster.org",)
    assert found["1"].left_s is None, "nobody has said what time it is"
    assert rows("sge", "sge-qstat-6.2u5-empty.xml") == {}


def test_grid_engine_with_what_is_left() -> None:
    found = rows("sge", "sge-listing-8.1.9.txt")
    assert states(found) == {
        "3": "stuck state Eqw: it could not be started, as qacct -j 3 says (is its directory on the nodes?)",
        "4": "pending state hqw",
        "8": "running",
        "9": "running state s",
        "10": "pending state qw",
        "11": "ending state dr",
    }
    assert found["8"] == ListedBlock("7", "gl1a2b3c4d-8", "running", "", 596.0, ("g1",), "2026-11-24T15:10:58")
    assert [found[number].left_s for number in ("9", "10")] == [None, None]


def test_ssh() -> None:
    found = rows("ssh", "ssh-list.txt")
    assert states(found) == {
        "1": "running",
        "2": "ended exit code 127",
        "3": "pending it is about to begin",
        "4": "ended it was killed",
        "5": "running its script was killed, and its worker goes on",
        "6": "ended its script has never begun",
        "gl99887766-1": "running",
    }
    assert (found["1"].native, found["1"].left_s) == ("4711:123456@node1", 14000.0)
    cut = recorded("ssh-list.txt").removesuffix("grainlike listed all\n")
    assert ALL["ssh"].listed(CommandResult(0, cut)).failed


def test_kubernetes() -> None:
    found = rows("k8s", "k8s-get-1.30.json")
    assert states(found) == {
        "1": "running",
        "2": 'ended ImagePullBackOff: Back-off pulling image "me/worker:1"',
        "3": "ended DeadlineExceeded: Job was active longer than specified deadline",
        "4": "ending ending",
        "5": "ended Evicted: The node was low on resource: memory.",
    }
    assert found["1"].nodes == ("n1",)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("code", [None, 1, 255, -9])
def test_a_listing_that_fails_says_nothing_of_blocks(kind: str, code: int | None) -> None:
    listing = ALL[kind].listed(CommandResult(code, "", "slurm_load_jobs error: Unable to contact slurm controller\n"))
    assert listing.blocks == ()
    assert "Unable to contact" in listing.failed
    assert ALL[kind].listed(CommandResult(None)).failed


@pytest.mark.parametrize("kind", ["lsf", "sge", "ssh", "local", "k8s"])
def test_formats_that_have_a_frame_are_not_there_without_it(kind: str) -> None:
    assert ALL[kind].listed(CommandResult(0, "")).failed
    assert ALL[kind].listed(CommandResult(0, "Welcome\n")).failed


_texts = st.one_of(
    st.text(max_size=300),
    st.sampled_from(sorted(path.read_text() for path in RECORDED.iterdir())).flatmap(
        lambda whole: st.tuples(st.integers(0, len(whole)), st.integers(0, len(whole)), st.text(max_size=5)).map(
            lambda cut: whole[: cut[0]] + cut[2] + whole[cut[1] :]
        )
    ),
    st.sampled_from(["[" * 10**5, '{"Jobs":' * 10**4, '{"Jobs":[1]}', '{"RECORDS":7}', '{"items":{}}', "<a>" * 10**4]),
)


@given(_texts, _texts, st.sampled_from([None, 0, 0, 0, 1, 255]))
def test_no_text_raises(stdout: str, stderr: str, code: int | None) -> None:
    said = CommandResult(code, stdout, stderr)
    for dialect in ALL.values():
        listing = dialect.listed(said)
        assert listing.failed == "" or listing.blocks == ()
        assert all(block.name[:2] == "gl" for block in listing.blocks)
        for answer in (dialect.submitted(said), dialect.checked(said)):
            assert answer.verdict in ("accepted", "waits", "refused", "unclear")
            assert answer.verdict == "accepted" or not answer.native
    expand_hosts(stdout)


@given(st.lists(st.tuples(st.sampled_from(["n", "gpu-"]), st.integers(0, 50), st.integers(0, 20)), max_size=4))
def test_lists_of_hosts_are_expanded(pieces: list[tuple[str, int, int]]) -> None:
    text = ",".join(f"{name}[{first}-{first + more}]" for name, first, more in pieces)
    assert expand_hosts(text) == tuple(
        f"{name}{number}" for name, first, more in pieces for number in range(first, first + more + 1)
    )


def test_endless_lists_of_hosts_end() -> None:
    assert len(expand_hosts("n[0-999999999]")) == 2**16
    assert len(expand_hosts(",".join(["n[0-9999]x[0-9999]"] * 9))) == 2**16


def test_every_recorded_output_is_read_by_a_test() -> None:
    here = Path(__file__).parent
    said = "".join(path.read_text() for path in here.glob("test_*.py"))
    assert [path.name for path in RECORDED.iterdir() if path.name not in said and path.name != "README.md"] == []
