"""Ways of messages over a link that may break: which pass large values, and which are numbered and resent."""

from typing import get_args

import pytest

from grainlike.net._resumable_session import NUMBERED, OF_THE_LINK, PASSING, way_of
from grainlike.wire import (
    Ack,
    Answer,
    Beat,
    ClientRecords,
    Goodbye,
    Notice,
    Pulled,
    Question,
    ReplicaCredit,
    ReplicaPart,
    SendReplica,
)
from grainlike.wire._messages import AnyMessage

PASS = {Beat, Ack, *get_args(Question), *get_args(Answer)}
UNNUMBERED = {Goodbye, ClientRecords, Notice, SendReplica, ReplicaPart, ReplicaCredit, Pulled}


@pytest.mark.parametrize("kind", get_args(AnyMessage), ids=lambda kind: kind.__name__)
def test_queries_and_answers_pass_and_what_is_not_about_a_link_is_numbered(kind):
    assert way_of(kind) == (PASSING if kind in PASS else OF_THE_LINK if kind in UNNUMBERED else NUMBERED)
