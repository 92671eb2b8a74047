"""Figures of a head as text, read by Prometheus' own parsers, and the small server that answers with it."""

import socket

import anyio
import pytest
from anyio.abc import SocketAttribute
from descriptors import without_descriptors
from limits import LIMIT_S
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families
from waiting import until

from grainlike.telemetry import OPENMETRICS, PROMETHEUS, MetricsServer, _metrics_server, parse_endpoint, render_metrics
from grainlike.wire import MetricsAre, PoolRow, Totals, WorkerUse

NASTY = 'a "quoted"\\name\nof two lines \ud800'
TOTALS = Totals(succeeded=7, failed=2, skipped=1, timed_out=3, cancelled=4, total_seconds=100.0, run_seconds=12.5)
WORKERS = [
    WorkerUse(
        "n1", "", "up", 3, {"cores": 4.0, "gpus": 2.0, "memory": 8e9}, {"cores": 3.0, "gpus": 0.5, "memory": 2e9}
    ),
    WorkerUse(NASTY, "b-1", "quarantine", 0, {"cores": 2.0, "licence": 1.0}, {"cores": 0.0, "licence": 1.0}),
]
POOL = PoolRow("cpu", "slurm", "cores=4", 1, 4, 2, 1, 1, "refused", 0.5)
FACTS = MetricsAre(
    *(0, 1000.0, 60.0, "c", "1.2", "3.11.9", {"queued": 5, "running": 3}, TOTALS, 2, 1, 1, 4096, 9, 500),
    *(WORKERS, [POOL], [("cpu", "up", 1)]),
)


def samples(families):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value for family in families for sample in family.samples
    }


def of_prometheus(facts):
    return list(text_string_to_metric_families(render_metrics(facts)))


def of_openmetrics(facts):
    return list(openmetrics_parser.text_string_to_metric_families(render_metrics(facts, openmetrics=True)))


@pytest.mark.parametrize("read", [of_prometheus, of_openmetrics])
def test_the_official_parsers_read_every_figure(read):
    families = read(FACTS)
    found = samples(families)
    assert found["grainlike_jobs", ("state", "queued")] == 5
    assert found["grainlike_jobs", ("state", "backoff")] == 0
    assert found["grainlike_jobs_ended_total", ("outcome", "timed_out")] == 3
    assert found["grainlike_job_run_seconds_total",] == 12.5
    assert found["grainlike_queue_groups",] == 2
    assert found["grainlike_head_start_time_seconds",] == 940
    assert found["grainlike_head_up_seconds",] == 60
    assert found["grainlike_session_kept_bytes",] == 4096
    assert found["grainlike_workers", ("state", "up")] == found["grainlike_workers", ("state", "quarantine")] == 1
    assert found["grainlike_worker_cores", ("worker", "n1")] == 4
    assert found["grainlike_worker_cores_in_use", ("worker", "n1")] == 3
    assert found["grainlike_worker_gpus_in_use", ("worker", "n1")] == 0.5
    assert found["grainlike_worker_memory_bytes", ("worker", "n1")] == 8e9
    assert found["grainlike_worker_memory_in_use_bytes", ("worker", "n1")] == 2e9
    name = NASTY.replace("\ud800", "\\ud800")
    assert found["grainlike_worker_resource_in_use", ("resource", "licence"), ("worker", name)] == 1
    assert ("grainlike_worker_gpus", ("worker", name)) not in found
    assert found["grainlike_pool_workers", ("pool", "cpu"), ("state", "wanted")] == 2
    assert found["grainlike_pool_paused", ("pool", "cpu")] == 1
    assert found["grainlike_pool_core_seconds_total", ("pool", "cpu")] == 1800
    assert found["grainlike_blocks", ("pool", "cpu"), ("state", "up")] == 1
    assert found["grainlike_blocks", ("pool", "cpu"), ("state", "pending")] == 0
    build = ("grainlike_build_info", ("cluster", "c"), ("python_version", "3.11.9"), ("version", "1.2"))
    assert found[build] == 1


@pytest.mark.parametrize("read", [of_prometheus, of_openmetrics])
def test_names_follow_the_conventions(read):
    families = read(FACTS)
    names = [family.name for family in families]
    assert len(set(names)) == len(names)
    for family in families:
        assert family.name.startswith("grainlike_")
        assert family.documentation.endswith(".")
        assert family.type in ("counter", "gauge", "info")
        assert not family.name.endswith(("_hours", "_ms", "_mb", "_count", "_total_total"))
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter")
        for unit in ("seconds", "bytes"):
            if f"_{unit}" in family.name:
                assert family.name.removesuffix("_total").endswith(unit)


def test_openmetrics_has_units_and_an_end():
    families = {family.name: family for family in of_openmetrics(FACTS)}
    assert families["grainlike_job_run_seconds"].unit == "seconds"
    assert families["grainlike_worker_memory_in_use_bytes"].unit == "bytes"
    assert render_metrics(FACTS, openmetrics=True).endswith("\n# EOF\n")


def test_no_label_has_more_values_than_there_are_workers_and_pools():
    labels = {label for family in of_prometheus(FACTS) for sample in family.samples for label in sample.labels}
    assert labels == {"cluster", "outcome", "pool", "python_version", "resource", "state", "version", "worker"}


# --- the server ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "host", "port", "written"),
    [
        ("127.0.0.1:9464", "127.0.0.1", 9464, "127.0.0.1:9464"),
        ("9464", "127.0.0.1", 9464, "127.0.0.1:9464"),
        (":0", "127.0.0.1", 0, "127.0.0.1:0"),
        ("[::1]:80", "::1", 80, "[::1]:80"),
        ("login1:65535", "login1", 65535, "login1:65535"),
    ],
)
def test_an_endpoint_is_host_and_port(text, host, port, written):
    endpoint = parse_endpoint(text)
    assert (endpoint.host, endpoint.port, str(endpoint)) == (host, port, written)


@pytest.mark.parametrize("text", ["", "login1", "login1:", "login1:http", "login1:65536", "::1:80", "n:-1", "n:²"])
def test_what_is_no_endpoint_is_refused(text):
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_endpoint(text)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A busy machine may take longer than a scraper does."""
    for limit in ("_PATIENCE_S", "_NAME_S"):
        monkeypatch.setattr(_metrics_server, limit, LIMIT_S)


class Served:
    """Server in a task of its own; `ask` sends a request as it is, and reads until the connection is closed."""

    def __init__(self, endpoint="0", facts=lambda: FACTS):
        self._server = MetricsServer(parse_endpoint(endpoint), facts)

    async def __aenter__(self):
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self.address = await self._server.start(self._tasks)
        return self

    async def __aexit__(self, *error):
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(*error)

    async def ask(self, request):
        async with await anyio.connect_tcp(*self.address) as stream:
            await stream.send(request.encode())
            told = b""
            while True:
                try:
                    told += await stream.receive()
                except anyio.EndOfStream:
                    break
        head, _, body = told.decode().partition("\r\n\r\n")
        status, *lines = head.split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines)
        return int(status.split()[1]), fields, body

    async def get(self, *fields, method="GET", path="/metrics", host="localhost:9"):
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *fields, "", ""]
        return await self.ask("\r\n".join(lines))


@pytest.mark.anyio
async def test_a_scrape_gets_the_format_that_it_accepts():
    async with Served() as served:
        status, fields, body = await served.get()
        assert (status, fields["Content-Type"], body) == (200, PROMETHEUS, render_metrics(FACTS).replace("\r", ""))
        assert int(fields["Content-Length"]) == len(body.encode())
        accepts = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
        status, fields, body = await served.get(accepts)
        assert (status, fields["Content-Type"]) == (200, OPENMETRICS)
        assert list(openmetrics_parser.text_string_to_metric_families(body))
        assert (await served.get(path="/metrics?a=b"))[0] == 200
        status, fields, body = await served.get(method="HEAD")
        assert (status, body) == (200, "")
        assert int(fields["Content-Length"]) > 1000


@pytest.mark.anyio
async def test_it_is_read_alone():
    async with Served() as served:
        assert (await served.get(method="POST"))[0] == 405
        assert (await served.get(path="/"))[0] == 404
        assert (await served.ask("nonsense\r\n\r\n"))[0] == 400


@pytest.mark.anyio
async def test_another_name_in_the_host_header_is_refused(monkeypatch):
    monkeypatch.setattr(_metrics_server.socket, "gethostname", lambda: "node7.site")
    monkeypatch.setattr(_metrics_server.socket, "getfqdn", lambda: "node7.site.org")
    async with Served("0.0.0.0:0") as served:
        for host in ("127.0.0.1:80", "10.0.0.7", "[::1]:80", "LOCALHOST", "node7", "NODE7.site", "node7.site.org.:80"):
            assert (await served.get(host=host))[0] == 200, host
        for host in ("evil.org", "node", "127.0.0.1.evil.org", "site.org", "", ".", ":80", "evil.org:80"):
            assert (await served.get(host=host))[0] == 403, host
        for host in ("node7.evil.org", "node7.site.evil.org", "node7.site.org.evil.org", "node7.site.or"):
            assert (await served.get(host=host))[0] == 403, host
        assert (await served.get("Host: evil.org"))[0] == 400
        for field in ("Host : evil.org", " Host: evil.org", "Host\t: evil.org"):
            assert (await served.get(field))[0] == 400, field
        assert (await served.ask("GET /metrics HTTP/1.1\r\n\r\n"))[0] == 403
        assert (await served.ask("GET /metrics HTTP/1.0\r\n\r\n"))[0] == 200


@pytest.mark.anyio
async def test_requests_and_connections_are_bounded(monkeypatch):
    async with Served() as served:
        assert (await served.get("X: " + "x" * 10_000))[0] == 431
        await until(lambda: served._server._connections == 0)  # it hears of our end when it comes to it
        monkeypatch.setattr(_metrics_server, "_MOST_CONNECTIONS", 2)
        async with await anyio.connect_tcp(*served.address), await anyio.connect_tcp(*served.address):
            await until(lambda: served._server._connections == 2)
            # Closed at once: not read, nor waited for, as that would keep a descriptor for who says nothing.
            monkeypatch.setattr(_metrics_server, "_DRAIN_S", 3600)
            async with await anyio.connect_tcp(*served.address) as stream:
                assert (await stream.receive()).startswith(b"HTTP/1.1 503 ")
                await until(lambda: served._server._connections == 2)
        await until(lambda: served._server._connections == 0)
        assert (await served.get())[0] == 200


@pytest.mark.anyio
async def test_out_of_descriptors_accepting_pauses_and_recovers(monkeypatch, caplog):
    monkeypatch.setattr("grainlike.net._accept_errors._SHORTAGE_PAUSE_S", 0)
    with socket.socket() as waiting:
        async with Served() as served:
            with without_descriptors():
                waiting.connect(served.address)  # the kernel takes it
                await until(lambda: caplog.records)
            assert (await served.get())[0] == 200
            await until(lambda: served._server._connections == 1)  # who waited was taken, too
    assert [record.message for record in caplog.records] == [
        f"http://{served.address}/metrics takes no connections for now: Too many open files"
    ]


@pytest.mark.anyio
async def test_a_server_that_fails_is_logged_and_ends_nothing_else(monkeypatch, caplog):
    monkeypatch.setattr("grainlike.net._accept_errors._SHORTAGE", frozenset())  # as if it were for ever
    ended = []

    async def neighbour():
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)

    with socket.socket() as waiting:
        async with Served() as served:
            served._tasks.start_soon(neighbour)
            with without_descriptors():
                waiting.connect(served.address)
                await until(lambda: caplog.records)
            await anyio.wait_all_tasks_blocked()
            assert not ended
    assert [record.message for record in caplog.records] == ["metrics are served no more"]


@pytest.mark.anyio
async def test_requests_that_fail_are_logged_once_and_end_nothing(monkeypatch, caplog):
    def failing(*_, **__):
        raise RuntimeError("cannot pack")

    async with Served() as served:
        with monkeypatch.context() as patch:
            patch.setattr(_metrics_server, "_packed", failing)
            for _ in range(2):
                async with await anyio.connect_tcp(*served.address) as stream:
                    await stream.send(b"nonsense\r\n\r\n")
                    with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                        await stream.receive()
        assert (await served.get())[0] == 200
    assert [record.message.partition(";")[0] for record in caplog.records] == ["a request for metrics has failed"]


@pytest.mark.anyio
async def test_who_says_nothing_is_hung_up_on(monkeypatch):
    monkeypatch.setattr(_metrics_server, "_PATIENCE_S", 0.01)
    async with Served() as served, await anyio.connect_tcp(*served.address) as stream:
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await stream.receive()


@pytest.mark.anyio
async def test_figures_that_cannot_be_made_end_nothing(caplog):
    def facts():
        raise RuntimeError("no figures")

    async with Served(facts=facts) as served:
        assert (await served.get())[0] == 500
        assert (await served.get())[0] == 500
    assert "metrics could not be made" in caplog.text


@pytest.mark.anyio
async def test_a_port_in_use_is_an_error_with_the_reason():
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as taken:
        port = taken.extra(SocketAttribute.local_port)
        async with anyio.create_task_group() as tasks:
            server = MetricsServer(parse_endpoint(f"127.0.0.1:{port}"), lambda: FACTS)
            with pytest.raises(OSError, match=rf"metrics cannot be served at 127.0.0.1:{port}: .*in use"):
                await server.start(tasks)
