"""Bugs made by hand in what lets a head outlive its process; see `seeded_bugs`."""

from __future__ import annotations

from seeded_bugs import Bug, Change

__all__ = ["RECOVERY_BUGS", "RECOVERY_SUITES"]

RECOVERY_SUITES = {
    "again": "tests/integration/faults/test_faults_head_again.py",
    "images": "tests/unit/journal/test_objects.py",
    "replayed": "tests/unit/executor/test_head_made_again.py",
}

_DURABLE, _DAEMON, _IMAGE = "head/durable/_head.py", "head/durable/_daemon.py", "head/durable/_snapshot.py"


def _bug(name: str, breaks: str, suite: str, *changes: tuple[str, str, str]) -> Bug:
    return Bug(name, "recovery", breaks, suite, tuple(Change(*change) for change in changes))


RECOVERY_BUGS: tuple[Bug, ...] = (
    _bug(
        "acknowledge_before_the_disk_has_it",
        "who said something forgets it, and a power cut takes the only record of it",
        "again",
        (_DURABLE, "self._unsaid.append((position, session, session.received))", "session.tell(session.received)"),
    ),
    _bug(
        "let_time_go_on_in_a_replay",
        "the scheduler is asked the same questions at other moments, and decides otherwise",
        "replayed",
        (_DURABLE, "return self._clock() if self._moment is None else self._moment", "return self._clock()"),
    ),
    _bug(
        "keep_hashes_in_an_image",
        "the next process hashes otherwise, and does not find what it has",
        "images",
        ("journal/_objects.py", '_WORKED_OUT = frozenset({"_hash"})', "_WORKED_OUT = frozenset[str]()"),
    ),
    _bug(
        "record_that_all_leave_at_sigterm",
        "the end of a process is taken for the end of its work",
        "again",
        (_DAEMON, "            self._journal.stop()\n", ""),
    ),
    _bug(
        "record_no_question_about_logs",
        "the next head has said fewer messages than its workers have heard",
        "replayed",
        (_DURABLE, "                self._write(WorkerTold(self._clock(), peer.number), [Frame(follow)])\n", ""),
    ),
    _bug(
        "count_no_words_that_change_nothing",
        "the next head thinks that less has come from a worker than has",
        "again",
        (_DURABLE, "                _session(peer).resume_at(what.received, what.heard)\n", ""),
    ),
    _bug(
        "keep_readers_in_an_image",
        "a client that was reading a log cannot come back",
        "again",
        (_IMAGE, "        connection.listening = {}  # it asks again\n", "        pass\n"),
    ),
)
