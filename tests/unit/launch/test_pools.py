"""Pools: plain data with the keys of the settings."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grainlike import Cores, Memory
from grainlike.launch import (
    LAUNCHERS,
    LSF,
    PBS,
    SGE,
    SSH,
    Kubernetes,
    Local,
    Slurm,
    WorkerPool,
    _checks,
    pool_class_of,
    pool_from,
)
from grainlike.launch._pool import CHECKS, WORKER_BYTES, keys_of

LEAST: dict[str, dict[str, object]] = {
    "slurm": {"walltime": 60},
    "pbs": {"walltime": 60},
    "lsf": {"walltime": 60},
    "sge": {"walltime": 60},
    "ssh": {"hosts": ["n1"]},
    "local": {},
    "k8s": {"image": "me/worker:1", "resources": "cores=1"},
}
"""The least that each kind needs."""


def known(**changes):
    """What a head says of a block."""
    usual = {"name": "gl1a2b3c4d-1", "label": "cpu-1", "directory": "/s/b", "access": "/s/w.json", "environment": {}}
    return {**usual, **changes}


@pytest.mark.parametrize("kind", LAUNCHERS)
def test_each_kind_is_made_of_its_word_and_writes_a_script(kind):
    pool = pool_from(LEAST[kind], kind)
    assert type(pool) is pool_class_of(kind)
    assert pool.kind == pool.dialect().kind == kind
    assert (pool.min, pool.max) == (0, 1)
    assert "worker" in pool.script()


@pytest.mark.parametrize("kind", LAUNCHERS)
def test_all_keys_are_checked(kind):
    assert set(keys_of(pool_class_of(kind))) <= set(CHECKS)


def test_no_check_is_of_a_key_that_no_kind_has():
    assert set(CHECKS) == {key for kind in LAUNCHERS for key in keys_of(pool_class_of(kind))}


def test_a_pool_is_shown_as_it_is_written():
    text = "Slurm('cores=16 memory=60Gi', walltime='4:00:00', max=8, setup=['module load python'], queue='long')"
    assert repr(eval(text, {"Slurm": Slurm})) == text


def test_pools_are_equal_when_they_mean_the_same():
    assert Slurm("cores=4", walltime="1:00:00") == Slurm(Cores(4), walltime=3600)
    assert hash(Slurm("cores=4", walltime="1:00:00")) == hash(Slurm(Cores(4), walltime=3600))
    assert Slurm("cores=4", walltime=3600) != Slurm("cores=4", walltime=3601)
    assert Slurm("cores=4", walltime=3600) != PBS("cores=4", walltime=3600)
    assert Kubernetes(Cores(1), image="i", pod={"a": {"b": 1}}) == Kubernetes(Cores(1), image="i", pod={"a": {"b": 1}})


def test_a_pool_cannot_be_changed():
    pool = Local("cores=1")
    with pytest.raises(AttributeError):
        pool.max = 2  # type: ignore[misc]


def test_a_request_is_what_the_pool_asks_for():
    pool = Slurm(
        Cores(16) & Memory("60Gi"), walltime="4:00:00", queue="long", account="p17", nodes=2, env=["A=1", "B", "C"]
    )
    block = pool.block(**known(environment={"B": "2"}))
    assert (block.cores, block.memory, block.nodes) == (16, 60 * 2**30 + WORKER_BYTES, 2)
    assert (block.walltime_s, block.queue, block.account) == (14400, "long", "p17")
    assert block.env == (("A", "1"), ("B", "2")), "a variable that is not there is left out"
    assert block.python == sys.executable
    assert pool.block_core_hours == 128
    assert pool.max == 2, "the workers of one block"


def test_a_pool_without_resources_asks_for_whole_nodes():
    block = Slurm(walltime=60).block(**known())
    assert (block.whole, block.cores, block.memory, block.offer) == (True, 0, 0, "")
    assert Slurm(walltime=60).block_core_hours is None


def test_a_short_block_has_a_short_margin_unless_one_is_written():
    assert Slurm(walltime=60).margin_s == 12
    assert Slurm(walltime=600).margin_s == 60
    assert Slurm(walltime=60, margin=50).margin_s == 50
    assert Local().margin_s == 60


def test_the_manifest_of_kubernetes_is_json_with_the_users_pod_merged_in():
    pool = Kubernetes("cores=4 memory=8Gi", image="me/worker:1", pod={"nodeSelector": {"disk": "ssd"}})
    spec = json.loads(pool.script())["items"][0]["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert spec["containers"][0]["image"] == "me/worker:1"
    assert " python3 -m grainlike_worker " in spec["containers"][0]["command"][-1], "the interpreter of the image"


def test_a_script_of_the_users_own_has_its_holes_filled(tmp_path):
    own = tmp_path / "own.sh"
    own.write_text("#!/bin/sh\n{{directives}}\nulimit -n 9\n{{worker}}\n")
    text = Slurm("cores=2", walltime=60, script=str(own)).script()
    assert "#SBATCH --cpus-per-task=2\n" in text
    assert "ulimit -n 9\n" in text
    assert "grainlike" in text.splitlines()[-1]
    own.write_text("{{directive}}\n{{worker}}\n")
    with pytest.raises(ValueError, match="directive"):
        Slurm("cores=2", walltime=60, script=str(own)).script()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Slurm("cores=2"), "walltime: a pool of Slurm needs one"),
        (lambda: Slurm("cores=2", walltime="soon"), "walltime: "),
        (lambda: Slurm("cores=[0,1]", walltime=60), r"resources: .* names ids; Slurm says which ones"),
        (lambda: Slurm("cores=two", walltime=60), "resources: "),
        (lambda: Slurm("cores=2 walltime=60", walltime=60), "resources: walltime is a key of its own"),
        (lambda: Slurm("", walltime=60), "resources: .* offers nothing"),
        (lambda: Slurm(7, walltime=60), "resources: 7 is no offer"),  # type: ignore[arg-type]
        (lambda: Slurm(walltime=60, max=3, nodes=2), "max: 3 workers are not in blocks of nodes = 2"),
        (lambda: Slurm(walltime=60, min=2, max=1), "max: 1 is below min = 2"),
        (lambda: Slurm(walltime=60, max=True), "max: True is no whole number"),
        (lambda: Slurm(walltime=60, max=-1), "max: -1 is below 0"),
        (lambda: Slurm(walltime=60, nodes=2, max=1), "max: 1 workers are not in blocks of nodes = 2"),
        (lambda: Slurm(walltime=60, nodes=2, max=4).scaled(0, 1), "max: 1 workers are not in blocks of nodes = 2"),
        (lambda: Local(max=2), "resources: 2 workers of one machine cannot each have all of it"),
        (lambda: Local().scaled(0, 2), "resources: 2 workers of one machine cannot each have all of it"),
        (lambda: Slurm(walltime=60, margin=61), "margin: 61 leaves nothing of walltime = 60"),
        (lambda: Slurm(walltime=60, native="--qos=x"), "native: '--qos=x' is no list"),
        (lambda: Slurm(walltime=60, native=["--nodes=3"]), "native: .*nodes"),
        (lambda: Slurm(walltime=60, native=["-t", "5"]), "native: .*walltime"),
        (lambda: Slurm(walltime=60, env=["1A=2"]), "env: '1A=2' is no variable"),
        (lambda: Slurm(walltime=60, spread="mpiexec"), "spread: 'mpiexec' is none of srun"),
        (lambda: Slurm("cores=4", walltime=3600, budget=1), "budget: 1 core-hours are too few"),
        (lambda: Slurm(walltime=60, budget=float("nan")), "budget: nan is no number"),
        (lambda: Slurm(walltime=60, queue="a\nb"), "queue: .* more than one line"),
        (lambda: Slurm(walltime=60, scratch='/a"b'), "scratch: "),
        (lambda: Slurm(walltime=60, script="/nonexistent/own.sh").script(), "script: /nonexistent/own.sh: "),
        (lambda: SGE("cores=4", walltime=60), "pe: Grid Engine gives 4 slots in a parallel environment"),
        (lambda: LSF(walltime=60, native=["-W", "5"]), "native: .*walltime"),
        (lambda: Slurm(walltime=60, via="ssh 'login1"), "via: .* is no command: No closing quotation"),
        (lambda: SSH("cores=1"), "hosts: name the machines"),
        (lambda: SSH(hosts=["-oProxyCommand=evil"]), "hosts: '-oProxyCommand=evil' is no host"),
        (lambda: SSH(hosts=["n1"], max=2), "max: 2 workers on 1 machines"),
        (lambda: Kubernetes("cores=1"), "image: name the image"),
        (lambda: Kubernetes("cores=1", image="i", via="ssh login1"), "via: Kubernetes is asked by its API"),
        (lambda: Kubernetes(image="i"), "resources: a pod has no whole node"),
        (lambda: Kubernetes("cores=1", image="i", pod={"a": {1}}), "pod: "),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    ("table", "name", "words"),
    [
        ({}, "cpu", r"\[pool\.cpu\] kind: it is missing; known are slurm, pbs, lsf, sge, ssh, local, k8s"),
        ({"kind": "slrum"}, "cpu", r"\[pool\.cpu\] kind: 'slrum' is none; did you mean 'slurm'\?"),
        ({"kind": 3}, "cpu", r"\[pool\.cpu\] kind: 3 is none"),
        ({"kind": "slurm", "quue": "x"}, "cpu", r"\[pool\.cpu\] quue: there is no such key; did you mean 'queue'\?"),
        ({"kind": "slurm", "hosts": []}, "cpu", r"hosts: a pool of kind slurm has none; those of kind ssh do"),
        ({"kind": "slurm", "own_script": "x"}, "cpu", r"own_script: there is no such key"),
        ({"kind": "slurm", "walltime": "x"}, "cpu", r"\[pool\.cpu\] walltime: "),
        ({"kind": "local"}, "a b", r"'a b' is no name of a pool"),
        ({"kind": "local"}, "../x", r"'../x' is no name of a pool"),
    ],
)
def test_a_wrong_table_is_refused_with_the_nearest_right_word(table, name, words):
    with pytest.raises(ValueError, match=words):
        pool_from(table, name)


@given(
    cores=st.integers(1, 256),
    walltime=st.integers(1, 10**7),
    nodes=st.integers(1, 64),
    queue=st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=10),
    setup=st.lists(st.text(st.characters(codec="ascii", exclude_characters="\0\r\n"), max_size=10), max_size=3),
)
def test_what_is_shown_is_read_back(cores, walltime, nodes, queue, setup):
    pool: WorkerPool = Slurm(Cores(cores), walltime=walltime, nodes=nodes, queue=queue, setup=setup)
    again = eval(repr(pool), {"Slurm": Slurm, "Cores": Cores})
    assert again == pool
    assert repr(again) == repr(pool)


def test_an_offer_whose_name_other_systems_have_for_memory_is_hinted_at_once(caplog, monkeypatch):
    monkeypatch.setattr(_checks, "_said", set())
    for _ in range(2):
        pool_from({"kind": "local", "resources": "cores=16 mem=60"}, "mine")
    [record] = caplog.records
    assert record.getMessage() == "resources: only jobs that ask for mem by this name get it; did you mean memory?"
