"""Pools of workers on a fake Kubernetes, whose pods are real processes: fakes/README-kubernetes.md."""

import json
import os
import re
import sys
from base64 import b64decode
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest
import yaml
from anyio.streams.buffered import BufferedByteReceiveStream
from fakes_here import ask_often
from kube_here import IMAGE, KubeHere
from limits import LIMIT_S
from ports import free_port
from waiting import until, until_files

from grainlike import Cores, Executor, LaunchError, Nodes, cancel, delayed, start
from grainlike.dialects import Listing
from grainlike.launch import Kubernetes, LaunchContext, client_of
from grainlike.launch._kubernetes_session import ApiError, within_time
from grainlike.net import state_directory

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"], indirect=True)
PAGE = Path(__file__).parents[2] / "docs" / "launching" / "kubernetes.md"
ABSENT = "grainlike/absent:1"


@pytest.fixture
def anyio_backend(request):
    """On asyncio, but for tests that say otherwise."""
    return getattr(request, "param", "asyncio")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The fake Kubernetes, for all tests; by default they have the role of the docs, and no other rights."""
    here = KubeHere(tmp_path_factory.mktemp("kube"), shown("Role")["rules"])
    yield here
    here.close()


@pytest.fixture
def kube(server, monkeypatch, tmp_path):
    """The fake Kubernetes with nothing in it; a test fails if it leaves a Job, pod, Secret or process there."""
    assert server.left() == []
    (server.folder / "created").unlink(missing_ok=True)
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ask_often(monkeypatch)
    yield server
    left = server.left()
    server.delete_all()
    assert left == []


def shown(kind):
    """Return the object of a kind that the docs show."""
    blocks = re.findall(r"^(?:```yaml|[^\n]*<<'JOB')\n(.*?)^(?:```|JOB)$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (found,) = (item for item in map(yaml.safe_load, blocks) if item["kind"] == kind)
    return found


def kube_pool(resources="cores=1", **keys):
    """Return a pool whose blocks last five minutes, unless said otherwise."""
    return Kubernetes(resources, **{"walltime": "0:05:00", "image": IMAGE, **keys})


@asynccontextmanager
async def opened(launch=None):
    """Open an executor without cores of its own, with pools, which workers reach on loopback."""
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=None, listen="tcp://127.0.0.1:0", launch=launch) as executor:
            yield executor


def ended(executor):
    """Return the blocks that have ended."""
    rows = executor._service._service.launched.view.block_rows(ended=True)
    return [row for row in rows if row.state == "ended"]


def pool_row(executor):
    """Return the row of the only pool."""
    (row,) = executor.pools()
    return row


async def until_up(executor, count=1):
    """Return the blocks once all of them are up, with so many workers, and their names are known: a worker may join
    before the submission is answered.
    """

    def all_up():
        rows = executor.blocks()
        found = sum(row.workers for row in rows) == count and {row.state for row in rows} == {"up"}
        return rows if found and all(row.native for row in rows) else None

    return await until(all_up)


@delayed
def where():
    """Return the pod."""
    return os.environ["HOSTNAME"]


# --- before anything is created --------------------------------------------------------------------------------------


@BOTH
async def test_a_check_is_a_dry_run_and_creates_nothing(kube):
    assert "would take it, in namespace default" in await kube_pool().check()
    assert "in namespace team" in await kube_pool(context="team").check()
    assert kube.left() == []
    with pytest.raises(LaunchError, match='namespaces "nowhere" not found'):
        await kube_pool(namespace="nowhere").check()
    with pytest.raises(LaunchError, match=r"spec\.template\.spec.*'nodes' was unexpected") as caught:
        await kube_pool(pod={"nodes": 3}).check()
    assert json.loads(caught.value.script)["items"][0]["kind"] == "Job"
    with pytest.raises(LaunchError, match=r'jobs\.batch is forbidden: User "reader" cannot create resource "jobs"'):
        await kube_pool(context="reader").check()
    with pytest.raises(LaunchError, match="Unauthorized"):
        await kube_pool(context="stranger").check()
    with pytest.raises(LaunchError, match="No such context elsewhere"):
        await kube_pool(context="elsewhere").check()


async def test_dry_prints_what_would_be_created_and_needs_no_head(kube):
    words = ("up", "k8s", "--resources", "cores=2 memory=1Gi", "--walltime", "600", "--dry")
    code, out, err = await command(*words)
    assert (code, "image: name the image" in err) == (2, True)
    project = kube.folder / "project"
    project.mkdir()
    (project / "grainlike.toml").write_text(f'[pool.k8s]\nkind = "k8s"\nimage = "{IMAGE}"\n')
    code, out, err = await command(*words, cwd=project)
    assert (code, err) == (0, "")
    assert out.startswith("$ kubectl create -o name -f -\n")
    assert '"activeDeadlineSeconds": 600' in out
    assert out.rstrip().endswith("Kubernetes would take it, in namespace default (server dry run)")
    code, out, err = await command(*words, cwd=project, KUBECONFIG="/nonexistent")
    assert code == 1
    assert "no way to Kubernetes" in err
    assert kube.left() == []


async def test_no_server_is_said_so(kube, tmp_path, monkeypatch):
    config = json.loads(kube.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "config").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert "no connection to https://127.0.0.1:1" in str(await refusal_of(kube_pool()))
    (tmp_path / "config").write_text("users: 3")
    assert "no way to Kubernetes" in str(await refusal_of(kube_pool()))


async def refusal_of(pool):
    """Return why a pool's check fails."""
    with pytest.raises(LaunchError) as caught:
        await pool.check()
    return caught.value


async def test_a_program_that_signs_in_is_asked_each_time(kube, tmp_path, monkeypatch):
    config = json.loads(kube.kubeconfig.read_text())
    said = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "guessed"}}
    (tmp_path / "said").write_text(json.dumps(said))
    program = {"apiVersion": "client.authentication.k8s.io/v1", "command": "cat", "args": [str(tmp_path / "said")]}
    config["users"][0]["user"] = {"exec": program}
    (tmp_path / "config").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert "Unauthorized" in str(await refusal_of(kube_pool()))
    (tmp_path / "said").write_text(json.dumps({**said, "status": {"token": "token-of-admin"}}))
    assert "would take it" in await kube_pool().check()
    (tmp_path / "said").unlink()
    assert "No such file" in str(await refusal_of(kube_pool()))


async def test_in_a_pod_the_service_account_is_found(kube, tmp_path, monkeypatch):
    cluster = json.loads(kube.kubeconfig.read_text())["clusters"][0]["cluster"]
    (tmp_path / "ca.crt").write_bytes(b64decode(cluster["certificate-authority-data"]))
    (tmp_path / "token").write_text("token-of-admin")
    (tmp_path / "namespace").write_text("team\n")
    monkeypatch.setattr("grainlike.launch._kubernetes_session.SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    host, port = cluster["server"].removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    assert "in namespace team" in await kube_pool().check()
    assert (tmp_path / "ca.crt").exists()


async def test_no_copy_of_a_key_is_left(kube, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    await kube_pool(context="fake").check()
    assert list((tmp_path / "temporary").iterdir()) == []


# --- up and down -----------------------------------------------------------------------------------------------------


@BOTH
async def test_three_workers_are_three_jobs_and_nothing_is_left_when_they_are_taken_down(kube):
    asked = kube_pool("cores=2 memory=500Mi token=cpu", min=3, max=3, walltime="1:00:00")
    async with opened() as executor:
        pool = await executor.up(asked, name="cpu")
        rows = await until_up(executor, 3)
        assert [row.label for row in rows] == ["cpu-1", "cpu-2", "cpu-3"]
        assert sorted(row.native for row in rows) == kube.names("jobs") == kube.names("secrets")
        for worker in executor.workers():
            assert worker.resources.units == {**asked.offer.units}
        assert {worker.name for worker in executor.workers()} == {"cpu-1.0", "cpu-2.0", "cpu-3.0"}
        assert await (where @ Cores(2))() in kube.names("pods")
        await until(lambda: {row.nodes for row in executor.blocks()} == {"fake-1", "fake-2"})
        await until(lambda: all(3000 < (row.left_s or 0) <= 3600 for row in executor.blocks()))
        await pool.down()
        assert executor.pools() == []
        assert kube.left() == []
        assert [(row.label, row.reason) for row in ended(executor)] == [
            (f"cpu-{number}", "the pool is taken down") for number in (1, 2, 3)
        ]


async def test_no_key_is_in_a_job_and_the_secret_is_a_file_of_its_owner(kube):
    async with opened(kube_pool(min=1)) as executor:
        (row,) = await until_up(executor)
        (job,), (pod,), (secret,) = (kube.items(kind) for kind in ("jobs", "pods", "secrets"))
        access = json.loads((state_directory() / "current" / "worker.json").read_text())
        for shown in (json.dumps(job), json.dumps(pod), Path(row.log).with_name("script").read_text()):
            assert "worker.json" in shown
            assert not any(access[name][30:60] in shown for name in ("key", "certificate", "authority"))
        assert secret["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
        volumes = kube.folder / "pods" / pod["metadata"]["name"] / "volumes"
        mounted, copied = volumes / "access" / "worker.json", volumes / "own" / "worker.json"
        assert json.loads(mounted.read_text()) == json.loads(copied.read_text()) == access
        assert (mounted.stat().st_mode & 0o777, copied.stat().st_mode & 0o777) == (0o400, 0o600)
        shown = [*map(shown_of, kube.processes())]
        assert any("grainlike_worker" in text for text in shown)
        assert not any(access[name][30:60] in text for text in shown for name in ("key", "certificate", "authority"))


def shown_of(process):
    """Return the words and variables of a process; empty if it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return "".join(Path("/proc", process, part).read_text(errors="replace") for part in ("cmdline", "environ"))
    return ""


async def test_a_block_of_two_pods_runs_a_gang_and_outlives_one_worker(kube):
    @delayed
    async def over_both():
        return "ran"

    async with opened(kube_pool(nodes=2, min=2, max=2)) as executor:
        await until_up(executor, 2)
        assert await (over_both @ Nodes(2, each=Cores(1)))() == "ran"
        os.kill(executor.workers()[0].pid, 9)
        await until(lambda: len(executor.workers()) == 1)
        await until(lambda: kube.items("jobs")[0]["status"].get("failed") == 1)
        assert await (where @ Cores(1))() in kube.names("pods")
        assert [row.label for row in executor.blocks()] == ["k8s-1"]
        assert len(kube.created("jobs")) == 1


async def test_the_job_of_the_docs_makes_a_worker(kube):
    job = shown("Job")
    job["spec"]["template"]["spec"]["containers"][0]["image"] = IMAGE
    async with opened() as executor:
        text = (state_directory() / "current" / "worker.json").read_text()
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one-worker"}}
        kube.say("/api/v1/namespaces/default/secrets", "POST", {**secret, "stringData": {"worker.json": text}})
        kube.say("/apis/batch/v1/namespaces/default/jobs", "POST", job)
        await executor.wait_for_workers(1)
        assert executor.workers()[0].resources.units == {**kube_pool("cores=2 memory=1Gi").offer.units}
        assert await (where @ Cores(2))() in kube.names("pods")
    await until(lambda: kube.items("jobs")[0]["status"].get("succeeded") == 1)
    kube.delete_all()
    await until(lambda: kube.left() == [])


async def test_the_log_of_a_block_is_kept(kube):
    async with opened(kube_pool(min=1, setup=["echo the disk is fine"])) as executor:
        (row,) = await until_up(executor)
        log = Path(row.log)
        await until_files(log.parent, lambda: log.exists() and log.read_text().startswith("the disk is fine\n"))
    assert_private(log, "exit code 0\n")


async def test_of_pods_with_several_containers_the_log_is_that_of_the_worker(kube):
    sidecar = {"name": "proxy", "image": IMAGE, "command": ["sleep", "1000"]}
    async with opened(kube_pool(min=1, setup=["echo the disk is fine"], pod={"containers": [sidecar]})) as executor:
        (row,) = await until_up(executor)
        (pod,) = kube.items("pods")
        assert [one["name"] for one in pod["spec"]["containers"]] == ["worker", "proxy"]
        log = Path(row.log)
        await until_files(log.parent, lambda: log.exists() and log.read_text().startswith("the disk is fine\n"))
    assert_private(log, "exit code 0\n")


def assert_private(path, end):
    """Check a file's last words, and that nobody else may read it."""
    assert path.read_text().endswith(end)
    assert path.stat().st_mode & 0o777 == 0o600


# --- failures --------------------------------------------------------------------------------------------------------


async def test_an_image_that_is_not_there_pauses_the_pool_in_the_words_of_the_event(kube, monkeypatch):
    monkeypatch.setattr("grainlike.fleet._endings.HOLD_S", 0.1)
    async with opened(kube_pool(image=ABSENT)) as executor:
        r_ = start((where @ Cores(1))())
        await until(lambda: executor.pools() and pool_row(executor).paused)
        assert "3 blocks in a row ended before a worker joined" in pool_row(executor).paused
        assert f'ImagePullBackOff: Failed to pull image "{ABSENT}": failed to resolve' in pool_row(executor).paused
        assert len(kube.created("jobs")) == 3
        assert "Failed to pull image" in str(await executor.explain(r_))
        await until(lambda: kube.left() == [])
        cancel(r_)


async def test_an_evicted_pod_says_so_and_its_job_runs_elsewhere(kube, tmp_path):
    async with opened(kube_pool(min=1)) as executor:
        await until_up(executor)
        kube.fault("evict", pod=kube.names("pods")[0])
        await until(lambda: ended(executor))
        (over,) = ended(executor)
        assert (over.label, over.reason) == ("k8s-1", "Evicted: The node was low on resource: memory.")
        assert await (where @ Cores(1))() in kube.names("pods")
        assert pool_row(executor).paused == ""
        assert len(kube.created("jobs")) == 2


async def test_a_pod_for_which_no_node_has_room_waits_with_its_reason(kube):
    async with opened(kube_pool("cores=5", max=1)) as executor:
        r_ = start((where @ Cores(5))())
        await until(lambda: executor.blocks() and "Insufficient cpu" in executor.blocks()[0].reason)
        assert executor.blocks()[0].state == "pending"
        assert "Unschedulable: 0/3 nodes are available" in str(await executor.explain(r_))
        cancel(r_)


async def test_a_worker_without_python_pauses_its_pool_at_once(kube):
    async with opened(kube_pool(python="/nonexistent")) as executor:
        r_ = start((where @ Cores(1))())
        await until(lambda: executor.pools() and pool_row(executor).paused)
        assert "/nonexistent" in pool_row(executor).paused
        assert len(kube.created("jobs")) == 1
        cancel(r_)


async def test_the_deadline_of_a_pod_is_that_of_its_block(kube):
    async with opened(kube_pool(walltime=6, margin=1, min=1, setup=["sleep 60"], join=60)) as executor:
        await until(lambda: ended(executor))
        assert "DeadlineExceeded: Pod was active on the node" in ended(executor)[0].reason


@pytest.mark.parametrize(
    ("kind", "status", "words"),
    [("jobs", 403, "the fake answers 403"), ("secrets", 403, "the fake answers 403")],
)
async def test_a_refusal_is_told_at_the_prompt_and_leaves_nothing(kube, kind, status, words):
    async with opened() as executor:
        kube.fault("status", kind=kind, code=status)
        with pytest.raises(LaunchError, match=words):
            await executor.up(kube_pool(min=1), name="cpu")
        assert words in pool_row(executor).paused
        await until(lambda: kube.left() == [])


async def test_a_refusal_of_the_secret_is_told_though_listings_come_before_it(kube):
    def listings():
        return (kube.folder / "requests").read_text().count("GET /apis/batch/v1/namespaces/default/jobs?limit=")

    async def up():
        with pytest.raises(LaunchError, match="the fake answers 403"):
            await executor.up(kube_pool(min=1), name="cpu")

    kube.fault("hang")
    kube.fault("status", kind="secrets", code=403)
    async with opened() as executor:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(up)
            await until(lambda: kube.names("jobs"))
            before = listings()
            await until(lambda: listings() >= before + 3)  # the second of them had the Job, and was told to the fleet
            kube.fault("go-on")
        assert "the fake answers 403" in pool_row(executor).paused
        await until(lambda: kube.left() == [])


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_broken_server_is_no_refusal(kube, status):
    kube.fault("status", kind="jobs", code=status)
    client = client_of(kube_pool(), LaunchContext(kube.folder, kube.folder / "kubeconfig", "1a2b3c4d"))
    said = await client.submit("gl1a2b3c4d-1", "cpu-1")
    assert (said.answer.verdict, said.answer.words) == ("unclear", f"the fake answers {status}")
    assert "fake answers" in said.answer.words
    assert kube.left() == []


@pytest.mark.parametrize("kind", ["jobs", "pods"])
async def test_a_page_to_sign_in_is_no_empty_listing(kube, kind):
    client = client_of(kube_pool(), LaunchContext(kube.folder, kube.folder / "kubeconfig", "1a2b3c4d"))
    kube.fault("page", kind=kind)
    listing = await client.listing()
    assert f"gave no list of {kind}: '<html>Please sign in</html>'" in listing.failed
    assert (await client.listing()).failed == ""


@BOTH
async def test_a_creation_that_gives_no_answer_is_found_and_gets_its_secret(kube):
    kube.fault("cut")
    async with opened() as executor:
        await executor.up(kube_pool(min=1), name="cpu")
        (row,) = await until_up(executor)
        assert kube.names("jobs") == kube.names("secrets") == [row.native]
        assert row.label == "cpu-1"
        assert len(kube.created("jobs")) == 1


@BOTH
async def test_what_is_not_answered_in_time_is_unclear(kube, monkeypatch):
    monkeypatch.setattr("grainlike.launch._kubernetes_session.NATIVE_S", 0.2)
    with pytest.raises(ApiError, match=r"^Kubernetes gave no answer within 0\.2 s$") as caught:
        await within_time("", "", lambda _: anyio.sleep_forever())
    assert caught.value.verdict == "unclear"


async def test_a_listing_of_any_pool_leaves_a_job_without_its_secret_to_the_submission_under_way(kube, tmp_path):
    (tmp_path / "worker.json").write_text("{}")
    context = LaunchContext(tmp_path / "state", tmp_path / "worker.json", "1a2b3c4d")
    client, another = client_of(kube_pool(), context), client_of(kube_pool("cores=2"), context)
    kube.fault("hang")
    kube.fault("status", kind="secrets", code=403)
    said = []

    async def submit():
        said.append(await client.submit("gl1a2b3c4d-1", "cpu-1"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(submit)
        await until(lambda: kube.names("jobs") == ["gl1a2b3c4d-1"])
        assert (await client.listing(), await another.listing()) == (Listing(), Listing())
        assert kube.created("secrets") == []
        kube.fault("go-on")
    assert [submission.answer.words for submission in said] == ["the fake answers 403"]
    await until(lambda: kube.left() == [])


async def test_a_job_that_is_there_already_is_adopted(kube, tmp_path):
    (tmp_path / "worker.json").write_text("{}")
    client = client_of(kube_pool(), LaunchContext(tmp_path / "state", tmp_path / "worker.json", "1a2b3c4d"))
    for _ in range(2):
        said = await client.submit("gl1a2b3c4d-1", "cpu-1")
        assert (said.answer.verdict, said.answer.native) == ("accepted", "gl1a2b3c4d-1")
    assert kube.names("jobs") == kube.names("secrets") == ["gl1a2b3c4d-1"]
    await client.end(["gl1a2b3c4d-1"], kill=True)
    await until(lambda: kube.left() == [])
    await client.end(["gl1a2b3c4d-1"])


async def test_another_size_of_a_pool_does_not_forget_why_a_block_ended(kube, tmp_path):
    (tmp_path / "worker.json").write_text("{}")
    context = LaunchContext(tmp_path / "state", tmp_path / "worker.json", "1a2b3c4d")
    client = client_of(kube_pool(python="/nonexistent"), context)
    await client.submit("gl1a2b3c4d-1", "cpu-1")

    async def ended(client):
        rows = (await client.listing()).blocks
        return [row for row in rows if row.state == "ended"]

    [row] = await until(lambda: ended(client))
    assert "exit code 127" in row.reason
    await until(lambda: kube.left() == [])
    larger = client_of(kube_pool(python="/nonexistent", max=2), context)
    assert await ended(larger) == [row]
    elsewhere = client_of(kube_pool(namespace="other"), context)
    assert await ended(elsewhere) == []


async def test_without_the_extra_it_is_said_what_to_install(kube, monkeypatch):
    monkeypatch.setitem(sys.modules, "kr8s._auth", None)
    with pytest.raises(LaunchError, match=r"pip install 'grainlike\[kubernetes\]'"):
        await kube_pool().check()
    async with opened() as executor:
        with pytest.raises(LaunchError, match=r"pip install 'grainlike\[kubernetes\]'"):
            await executor.up(kube_pool(min=1), name="cpu")


# --- a head that is killed -------------------------------------------------------------------------------------------


async def command(*words, cwd=None, **environment):
    """Run a command of ours; return its exit code and what it printed."""
    said = await anyio.run_process(
        [sys.executable, "-m", "grainlike", *words], check=False, cwd=cwd, env={**os.environ, **environment}
    )
    return said.returncode, said.stdout.decode(), said.stderr.decode()


class HeadProgram:
    """`grainlike head start` with a journal, as a process of its own that may be killed."""

    def __init__(self, folder):
        self._folder = folder
        self._address = f"tcp://127.0.0.1:{free_port()}"  # one that nobody is given between two starts

    async def start(self):
        """Start it; return once it listens."""
        words = ("head", "start", "--listen", self._address, "--journal", str(self._folder))
        self.process = await anyio.open_process([sys.executable, "-m", "grainlike", *words], stderr=None)
        line = await BufferedByteReceiveStream(self.process.stdout).receive_until(b"\n", 4096)
        assert line.startswith(b"head at ")

    async def kill(self):
        """End it as a crash would."""
        self.process.kill()
        await self.process.wait()
        await self.process.aclose()

    async def stop(self):
        """End it with its blocks."""
        await command("head", "stop")
        await self.process.wait()
        await self.process.aclose()


async def test_a_head_that_is_killed_while_a_job_is_created_finds_it_and_later_its_workers(kube, tmp_path):
    async def blocks_up():
        rows = json.loads((await command("blocks", "--json"))[1])
        return rows if [row["state"] for row in rows] == ["up"] else None

    head = HeadProgram(tmp_path / "journal")
    (tmp_path / "grainlike.toml").write_text(f'[pool.k8s]\nkind = "k8s"\nimage = "{IMAGE}"\n')
    up = ("up", "k8s", "-n", "1", "--resources", "cores=1", "--walltime", "0:05:00")
    with anyio.fail_after(LIMIT_S):
        await head.start()
        kube.fault("hang")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: command(*up, cwd=tmp_path))
            await until(lambda: kube.names("jobs"))
            await head.kill()
            kube.fault("go-on")
            await head.start()
        [row] = await until(blocks_up)
        assert kube.names("jobs") == kube.names("secrets") == [row["native"]]
        [worker] = json.loads((await command("ls", "--json"))[1])
        await head.kill()
        await head.start()
        [again] = await until(blocks_up)
        [same] = json.loads((await command("ls", "--json"))[1])
        assert (again["label"], again["native"]) == (row["label"], row["native"]) == ("k8s-1", row["native"])
        assert same["pid"] == worker["pid"]
        assert len(kube.created("jobs")) == 1
        assert (await command("down"))[0] == 0
        assert kube.left() == []
        [over] = json.loads((await command("blocks", "--all", "--json"))[1])
        assert (over["label"], over["state"], over["reason"]) == ("k8s-1", "ended", "the pool is taken down")
        assert json.loads((await command("blocks", "script", "k8s-1"))[1])["items"][0]["kind"] == "Job"
        assert (await command("blocks", "log", "k8s-1"))[1].endswith("exit code 0\n")
        await head.stop()
