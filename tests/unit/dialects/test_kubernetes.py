"""What is created on Kubernetes, held to its schemas, and what its answers mean."""

import json
import re
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import kubernetes_validate.utils
import pytest
import yaml
from dialects_here import request, requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grainlike.dialects import BlockFile, BlockRequest, KubernetesDialect

# The schemas of one version have megabytes.
kubernetes_validate.utils.schema_contents = lru_cache(kubernetes_validate.utils.schema_contents)

VERSIONS = ["1.29", "1.31", "1.33", "1.35"]
SECRET = "-----BEGIN PRIVATE KEY-----"
FILE = BlockFile("/home/ann/state/worker.json", json.dumps({"key": SECRET}))


def dialect(**pod: object) -> KubernetesDialect:
    return KubernetesDialect("me/worker:1", namespace="team", pod=json.dumps(pod))


def spec_of(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("nodes", [1, 3])
def test_job_and_secret_are_what_the_schemas_say(version: str, nodes: int) -> None:
    block = request(nodes=nodes, deliver=(FILE,), gpus=1)
    for item in (dialect().job(block), dialect().secret(block, "1-2-3"), dialect().secret(block, "")):
        assert kubernetes_validate.validate(item, version, strict=True) == version


def test_the_objects_of_the_docs_are_what_the_schemas_say() -> None:
    page = Path(__file__).parents[3] / "docs" / "launching" / "kubernetes.md"
    blocks = re.findall(r"^(?:```yaml|[^\n]*<<'JOB')\n(.*?)^(?:```|JOB)$", page.read_text(), re.MULTILINE | re.DOTALL)
    kinds = [item["kind"] for item in map(yaml.safe_load, blocks) if kubernetes_validate.validate(item, "1.33", True)]
    assert kinds == ["Role", "Job"]


def test_the_schemas_refuse_what_is_wrong() -> None:
    wrong = dialect(restartPolice="Never").job(request())
    with pytest.raises(kubernetes_validate.ValidationError, match="restartPolice"):
        kubernetes_validate.validate(wrong, "1.33", strict=True)


@given(requests())
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_block_is_what_the_schemas_say(block: BlockRequest) -> None:
    kubernetes_validate.validate(dialect().job(block), "1.33", strict=True)


@pytest.mark.parametrize("nodes", [1, 3])
def test_nothing_that_failed_is_started_again(nodes: int) -> None:
    spec = dialect().job(request(nodes=nodes))["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", nodes, nodes)
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert (spec["backoffLimit"], spec.get("backoffLimitPerIndex")) == ((0, None) if nodes == 1 else (nodes, 0))
    assert spec["ttlSecondsAfterFinished"] > 0


def test_the_deadline_is_the_pods_so_that_waiting_for_a_node_costs_nothing() -> None:
    job = dialect().job(request(walltime_s=600))
    assert spec_of(job)["activeDeadlineSeconds"] == 600
    assert "activeDeadlineSeconds" not in job["spec"]
    assert "activeDeadlineSeconds" not in spec_of(dialect().job(request(walltime_s=None)))


def test_the_access_file_is_in_the_secret_alone() -> None:
    block = request(deliver=(FILE,))
    job, secret = dialect().job(block), dialect().secret(block, "1-2-3")
    assert SECRET not in json.dumps([job, dialect().manifest(block), dialect().submit(block).stdin])
    assert secret["stringData"] == {"worker.json": FILE.text}
    assert secret["metadata"]["ownerReferences"] == [
        {"apiVersion": "batch/v1", "kind": "Job", "name": block.name, "uid": "1-2-3"}
    ]
    volumes = {volume["name"]: volume for volume in spec_of(job)["volumes"]}
    assert volumes["access"]["secret"] == {"secretName": block.name, "defaultMode": 0o400}
    assert FILE.path not in json.dumps(job)


def test_what_the_user_writes_goes_over_ours_by_name() -> None:
    more = {
        "tolerations": [{"key": "gpu"}],
        "containers": [{"name": "worker", "env": [{"name": "A", "value": "1"}]}, {"name": "proxy", "image": "p"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    }
    spec = spec_of(dialect(**more).job(request(deliver=(FILE,))))
    worker, proxy = spec["containers"]
    assert (worker["image"], worker["env"], proxy["image"]) == ("me/worker:1", [{"name": "A", "value": "1"}], "p")
    assert [volume["name"] for volume in spec["volumes"]] == ["shm", "access", "own", "data"]
    assert spec["tolerations"] == [{"key": "gpu"}]


# --- answers ---------------------------------------------------------------------------------------------------------


def status(message: str, reason: str = "") -> str:
    return json.dumps({"kind": "Status", "message": message, "reason": reason})


@pytest.mark.parametrize(
    ("code", "body", "verdict", "words"),
    [
        (201, "{}", "accepted", ""),
        (409, status('jobs.batch "gl1a2b3c4d-1" already exists', "AlreadyExists"), "accepted", "already exists"),
        (409, status("the object has been modified", "Conflict"), "refused", "modified"),
        (400, status('unknown field "spec.x"', "BadRequest"), "refused", 'unknown field "spec.x"'),
        (401, status("Unauthorized"), "refused", "Unauthorized"),
        (403, status('User "ann" cannot create resource "jobs"', "Forbidden"), "refused", "cannot create"),
        (403, status("forbidden: exceeded quota: q, requested: count/jobs.batch=1", "Forbidden"), "waits", "quota"),
        (404, status('namespaces "nowhere" not found', "NotFound"), "refused", "nowhere"),
        (422, status("Job is invalid: spec", "Invalid"), "refused", "invalid"),
        (429, status("too many requests, please try again later"), "unclear", "too many"),
        (500, "internal", "unclear", "internal"),
        (504, "", "unclear", "HTTP status 504"),
        (502, "[" * 10**5, "unclear", "["),
        (404, '{"message": 7}', "refused", '{"message": 7}'),
    ],
)
def test_answers(code: int, body: str, verdict: str, words: str) -> None:
    answer = dialect().answered(code, body, "gl1a2b3c4d-1")
    assert answer.verdict == verdict
    assert words in answer.words
    assert answer.native == ("gl1a2b3c4d-1" if verdict == "accepted" else "")


# --- listings --------------------------------------------------------------------------------------------------------

JOB = {"kind": "Job", "metadata": {"name": "gl1a2b3c4d-1"}, "status": {"active": 1}}
NOW = datetime(2026, 11, 23, 14, 21, tzinfo=UTC)


def pod(name: str = "p", **status: object) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"grainlike/name": "gl1a2b3c4d-1"}}
    return {"kind": "Pod", "metadata": metadata, "spec": {"activeDeadlineSeconds": 300}, "status": status}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return pod(phase="Pending", containerStatuses=[{"state": {"waiting": {"reason": reason, "message": message}}}])


def event(about: str, reason: str, message: str) -> dict[str, Any]:
    return {"kind": "Event", "involvedObject": {"name": about}, "reason": reason, "message": message}


PULL = 'Failed to pull image "x": not found'
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
OOM = [{"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]
FAILED = {**JOB, "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}}


@pytest.mark.parametrize(
    ("items", "state", "reason"),
    [
        ([JOB], "pending", "pending"),
        (
            [JOB, event("gl1a2b3c4d-1", "FailedCreate", "exceeded quota: q")],
            "pending",
            "FailedCreate: exceeded quota: q",
        ),
        ([JOB, event("nightly", "FailedCreate", "exceeded quota: q")], "pending", "pending"),
        ([JOB, pod(phase="Pending", conditions=[UNSCHEDULABLE])], "pending", "Unschedulable: 0/3 nodes"),
        ([JOB, waiting("ContainerCreating")], "pending", "pending"),
        ([JOB, waiting("ContainerCreating"), event("p", "FailedMount", "no s")], "pending", "FailedMount: no s"),
        ([JOB, waiting("ErrImagePull", "x")], "pending", "ErrImagePull: x"),
        ([JOB, waiting("ImagePullBackOff", "Back-off")], "ended", "ImagePullBackOff: Back-off"),
        ([JOB, waiting("ImagePullBackOff", "b"), event("p", "Failed", PULL)], "ended", f"ImagePullBackOff: {PULL}"),
        ([JOB, waiting("InvalidImageName", "bad")], "ended", "InvalidImageName: bad"),
        ([JOB, pod(phase="Running"), waiting("ImagePullBackOff", "b")], "running", "ImagePullBackOff: b"),
        ([JOB, pod(phase="Running")], "running", ""),
        ([FAILED, pod(phase="Failed", reason="Evicted", message="low")], "ended", "Evicted: low"),
        ([FAILED, pod(phase="Failed", containerStatuses=OOM)], "ended", "exit code 137: OOMKilled"),
        ([FAILED], "ended", "BackoffLimitExceeded"),
    ],
)
def test_states_and_reasons(items: list[object], state: str, reason: str) -> None:
    (row,) = dialect().blocks(items, NOW).blocks
    assert (row.state, row.reason) == (state, reason)


@pytest.mark.parametrize(
    ("start", "left"), [("2026-11-23T14:20:00Z", 240.0), ("2026-11-23T14:00:00Z", 0.0), ("noon", None), (None, None)]
)
def test_the_time_left_is_that_of_the_pod_that_ends_first(start: str | None, left: float | None) -> None:
    pods = [pod(phase="Running", startTime=start), pod("q", phase="Running", startTime="2026-11-23T14:20:59Z")]
    (row,) = dialect().blocks([JOB, *pods], NOW).blocks
    assert row.left_s == (299.0 if left is None else left)
    (row,) = dialect().blocks([JOB, *pods], None).blocks
    assert row.left_s is None


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["metadata", "name", "status", "kind", "phase", "reason"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(_json, _json, _json)
def test_no_object_raises(first: object, second: object, third: object) -> None:
    strange = {**JOB, "status": first, "spec": second}
    rows = dialect().blocks([strange, {**pod(), "status": second, "spec": third}, {**pod(), "metadata": first}], NOW)
    assert [row.name for row in rows.blocks] == ["gl1a2b3c4d-1"]


@given(st.integers(100, 599), st.one_of(st.text(max_size=50), _json.map(json.dumps)))
def test_no_answer_raises(code: int, body: str) -> None:
    answer = dialect().answered(code, body, "gl1a2b3c4d-1")
    assert (answer.verdict == "accepted") == bool(answer.native)
    assert answer.words or answer.verdict == "accepted"
