"""Picture of a cluster: what a page makes of the pieces is what the head has told, whatever it missed meanwhile."""

import dataclasses
import json
from itertools import count

from msgspec.structs import replace
from pictures import Cluster, PageState

from grainlike.dashboard._picture import ClusterPicture

STEPS = count(1)


def drawn(picture):
    """Draw up all changes, however soon after those before."""
    picture.refresh(1e6 * next(STEPS))


def pieces_for(picture, seen):
    told = {}
    for piece in picture.since(seen):
        told.setdefault(piece.kind, []).append(json.loads(piece.text))
    return json.dumps(told)


def test_pieces_make_up_the_state_and_those_of_what_has_not_changed_do_not_come_again():
    cluster, picture, page = Cluster(3, cores=4), ClusterPicture(), PageState()
    picture.take(cluster.first())
    picture.take(cluster.turn_over())
    drawn(picture)
    page.take(pieces_for(picture, 0))
    assert page.held() == cluster.held()
    seen = picture.since(0)[-1].version
    assert picture.since(seen) == []
    one = cluster.workers["w1"]
    gone = next(iter(one))
    core = one.pop(gone)
    picture.take(cluster.told(ended=[(gone, "w1")]))
    drawn(picture)
    pieces = picture.since(seen)
    assert {piece.kind for piece in pieces} == {"c", "w"}
    assert len(pieces) == 2
    page.take(pieces_for(picture, seen))
    assert page.held() == cluster.held()
    assert page.held()["w1"][core] is None


def test_what_changes_many_times_is_one_piece():
    cluster, picture = Cluster(2, cores=4), ClusterPicture()
    picture.take(cluster.first())
    for _ in range(50):
        picture.take(cluster.turn_over())
        drawn(picture)
    assert sorted(piece.kind for piece in picture.since(0)) == ["c", "c", "f", "f", "f", "w", "w"]


def test_a_worker_that_left_is_told_and_one_of_its_name_is_another():
    cluster, picture, page = Cluster(2, cores=2), ClusterPicture(), PageState()
    picture.take(cluster.first())
    picture.take(cluster.turn_over())
    drawn(picture)
    page.take(pieces_for(picture, 0))
    seen = picture.since(0)[-1].version
    del cluster.workers["w0"]
    picture.take(cluster.told(left=["w0"]))
    drawn(picture)
    page.take(pieces_for(picture, seen))
    assert list(page.held()) == ["w1"]
    cluster.workers["w0"] = {}
    picture.take(cluster.told(workers=["w0"]))
    drawn(picture)
    page.take(pieces_for(picture, seen))
    assert page.held() == cluster.held()


def test_workers_that_come_and_go_for_a_day_keep_the_picture_small():
    cluster, picture = Cluster(0, cores=1), ClusterPicture()
    picture.take(cluster.first())
    for day in range(3_000):
        cluster.workers = {f"v{day}": {}}
        picture.take(cluster.told(workers=[f"v{day}"], left=[f"v{day - 1}"] if day else []))
        picture.take(cluster.turn_over())
        drawn(picture)
    assert 0 < len(picture.since(0)) < 1_100
    assert picture.gone > picture.since(0)[0].version
    page = PageState()
    page.take(pieces_for(picture, 0))
    assert page.held() == cluster.held()


def test_functions_of_ever_new_names_keep_the_picture_small():
    cluster, picture = Cluster(1, cores=1), ClusterPicture()
    picture.take(cluster.first())
    epoch = picture.epoch
    for day in range(2_500):
        picture.take(cluster.turn_over(names=(f"fn{day}",)))
        drawn(picture)
    drawn(picture)
    assert picture.epoch == epoch + 1
    assert len(picture.since(0)) < 600
    page = PageState()
    page.take(pieces_for(picture, 0))
    assert page.held() == cluster.held()


def test_a_function_keeps_its_number_when_the_head_is_followed_anew():
    cluster, picture = Cluster(1, cores=3), ClusterPicture()
    picture.take(cluster.first())
    picture.take(cluster.turn_over(names=("a", "b", "c")))
    drawn(picture)
    before = {name: picture.number_of(name) for name in "abc"}
    picture.take(cluster.first())
    picture.take(cluster.turn_over(names=("c", "a", "b")))
    drawn(picture)
    page = PageState()
    page.take(pieces_for(picture, 0))
    assert {name: number for number, name in page.names.items()} == before
    assert page.held() == cluster.held()


def test_a_large_worker_is_several_pieces_each_of_which_fits_into_an_update():
    cluster, picture, page = Cluster(1, cores=3_000), ClusterPicture(), PageState()
    picture.take(cluster.first())
    picture.take(cluster.turn_over())
    drawn(picture)
    assert max(len(piece.text) for piece in picture.since(0)) < 10_000
    page.take(pieces_for(picture, 0))
    assert page.held() == cluster.held()


def test_drawing_up_changes_waits_after_it_took_long(monkeypatch):
    cluster, picture = Cluster(1, cores=2), ClusterPicture()
    picture.take(cluster.first())
    picture.take(cluster.turn_over())
    clock = iter([0.0, 0.1])  # a tenth of a second of work is one percent of ten seconds
    monkeypatch.setattr("grainlike.dashboard._picture.time.perf_counter", lambda: next(clock))
    picture.refresh(100.0)
    seen = picture.since(0)[-1].version
    picture.take(cluster.turn_over())
    picture.refresh(109.9)
    assert picture.since(seen) == []
    monkeypatch.undo()
    picture.refresh(110.1)
    assert picture.since(seen) != []


def test_a_worker_of_which_nothing_has_changed_is_not_told_again():
    cluster, picture = Cluster(2, cores=2), ClusterPicture()
    picture.take(cluster.first())
    picture.take(cluster.turn_over())
    drawn(picture)
    seen = picture.since(0)[-1].version
    picture.take(cluster.told(workers=["w0", "w1"]))
    drawn(picture)
    assert picture.since(seen) == []


def test_bytes_of_values_are_told_of_each_worker_and_of_all():
    cluster, picture, page = Cluster(2, cores=1), ClusterPicture(), PageState()
    told = cluster.first()
    told.workers[0] = replace(told.workers[0], stored=5_000, spilled=70)
    told.workers[1] = replace(told.workers[1], stored=300)
    picture.take(replace(told, totals=dataclasses.replace(told.totals, moved=9)))
    drawn(picture)
    page.take(pieces_for(picture, 0))
    assert sorted(row[11:] for row in page.workers.values()) == [[300, 0], [5_000, 70]]
    assert picture.figures(0.0)["bytes"] == [5_300, 70, 9]
