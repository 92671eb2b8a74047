"""Updates of one page: bounded in number and bytes within any second, whole in the end, and not larger after a day."""

import json

from pictures import Cluster, PageState
from test_dashboard_budget import sent_in_any_second

from grainlike.dashboard._budget import BYTES_PER_S, UPDATES_PER_S
from grainlike.dashboard._feed import HeadFeed
from grainlike.dashboard._log_tail import LogTail
from grainlike.dashboard._page import PageUpdates
from grainlike.jobs import LogLine


def fed():
    feed = HeadFeed(lambda: None)
    feed.lost = ""
    return feed


def test_of_300_workers_on_which_all_changes_each_quarter_second_a_page_gets_50_kb_a_second_and_in_the_end_all():
    cluster, feed, page, sent = Cluster(300), fed(), PageState(), []
    updates = PageUpdates(feed, slots=True)
    feed.picture.take(cluster.first())
    now = 0.0
    for turn in range(400):  # 20 seconds, of which all changes in five
        now += 0.05
        if turn % 5 == 0 and turn < 100:
            feed.picture.take(cluster.turn_over())
            feed.picture.refresh(now * 1e6)
        text = updates.next(now)
        if text:
            sent.append((now, len(text)))
            page.take(text)
    most_updates, most_bytes = sent_in_any_second(sent)
    assert most_updates <= UPDATES_PER_S
    assert 0.8 * BYTES_PER_S < most_bytes <= BYTES_PER_S
    assert page.held() == cluster.held()
    assert updates.next(now + 10) == b""


def test_workers_that_wait_longest_come_first_so_that_none_is_left_behind():
    cluster, feed, page = Cluster(300), fed(), PageState()
    updates = PageUpdates(feed, slots=True)
    feed.picture.take(cluster.first())
    now, seen = 0.0, set()
    for _ in range(6):  # all has changed again each time that something may be sent
        now += 1.0
        feed.picture.take(cluster.turn_over())
        feed.picture.refresh(now * 1e6)
        text = updates.next(now)
        if text:
            seen |= {row[0] for row in page.take(text).get("c", ())}
    assert len(seen) == 300


def test_figures_come_when_they_have_changed_and_the_loss_of_the_head_at_once():
    cluster, feed = Cluster(1), fed()
    updates = PageUpdates(feed)
    feed.picture.take(cluster.first())
    first = json.loads(updates.next(1.0))
    assert first["figures"]["workers"] == 1
    assert first["lost"] == ""
    assert updates.next(2.0) == b""
    feed.lost = "the head at h is gone: it has closed"
    assert json.loads(updates.next(3.0)) == {"lost": "the head at h is gone: it has closed"}
    feed.lost = ""
    assert json.loads(updates.next(4.0)) == {"lost": ""}


def test_a_table_is_sent_when_it_is_another_and_there_is_room():
    feed = fed()
    updates = PageUpdates(feed)
    large = json.dumps({"rows": "x" * 30_000}).encode()
    other = json.dumps({"rows": "y" * 30_000}).encode()
    assert json.loads(updates.next(0.0, large))["doc"] == json.loads(large)
    assert updates.next(0.5, large) == b""
    assert updates.next(0.9, other) == b""
    assert json.loads(updates.next(1.1, other))["doc"] == json.loads(other)


def test_after_a_head_that_began_anew_a_page_begins_anew():
    cluster, feed, page = Cluster(2), fed(), PageState()
    updates = PageUpdates(feed, slots=True)
    feed.picture.take(cluster.first())
    feed.picture.take(cluster.turn_over())
    feed.picture.refresh(1e6)
    page.take(updates.next(0.0))
    cluster = Cluster(1)
    feed.picture.take(cluster.first())
    feed.picture.take(cluster.turn_over())
    feed.picture.refresh(1e9)
    assert page.take(updates.next(2.0))["anew"] is True
    assert page.held() == cluster.held()


def test_of_a_log_of_a_gigabyte_a_page_gets_the_last_lines_and_how_many_were_left_out():
    feed, log = fed(), LogTail(1)
    updates = PageUpdates(feed, log=log)
    for number in range(100_000):  # 100 lines of 10 kB, again and again
        log.add(LogLine(f"line {number} " + "x" * 10_000, 1, "stdout"))
    log.end()
    now, lines, dropped, sent = 0.0, [], 0, []
    while True:
        now += 0.25
        text = updates.next(now)
        if text:
            sent.append((now, len(text)))
            told = json.loads(text)
            lines += told.get("lines", [])
            dropped += told.get("dropped", 0)
            if told.get("end"):
                break
    assert sent_in_any_second(sent)[1] <= BYTES_PER_S
    assert dropped == 99_500
    assert len(lines) == 500
    assert lines[-1][0].startswith("line 99999 x")
    assert lines[-1][0].endswith("characters more]")
    assert updates.next(now + 5) == b""


def test_a_line_of_control_characters_is_no_larger_than_it_was_counted():
    feed, log = fed(), LogTail(1)
    updates = PageUpdates(feed, log=log)
    for _ in range(500):
        log.add(LogLine("\x00\x1b" * 1000, 1, "stderr"))
    assert 0 < len(updates.next(0.0)) <= BYTES_PER_S


def test_a_log_says_when_it_begins_so_that_no_line_is_shown_twice():
    feed, log = fed(), LogTail(1)
    updates = PageUpdates(feed, log=log)
    log.add(LogLine("one", 1, "stdout"))
    assert json.loads(updates.next(0.0))["begin"] is True
    log.add(LogLine("two", 1, "stdout"))
    assert json.loads(updates.next(1.0)) == {"lines": [["two", 1, "stdout"]], "dropped": 0}
    log.begin()
    log.add(LogLine("one", 1, "stdout"))
    log.end()
    told = json.loads(updates.next(2.0))
    assert told == {"lines": [["one", 1, "stdout"]], "dropped": 0, "begin": True, "end": True}
