"""The handshake: who introduces itself as what its certificate does not say, or with other versions, is refused."""

from __future__ import annotations

import msgspec
import pytest

from grainlike.errors import AuthenticationError, ProtocolError, VersionMismatchError
from grainlike.wire import (
    PROTOCOL,
    AcceptingHandshake,
    Beat,
    ConnectingHandshake,
    FrameDecoder,
    Hello,
    Refused,
    Software,
    Welcome,
)

SOFTWARE = Software("3.11.7", {"dill": "0.4.1"})
WELCOME = Welcome("c", 5.0, [], "n1")

LATER = PROTOCOL + 1


def hello(**changes):
    base = Hello(
        role="worker",
        protocol_low=PROTOCOL,
        protocol_high=PROTOCOL,
        python="3.11.2",
        serializers={"dill": "0.4.0"},
        name="n1",
        incarnation="i",
        pid=1,
        offer="cores=[0]",
        logical=[],
    )
    return msgspec.structs.replace(base, **changes)


def listener(proved=None):
    return AcceptingHandshake(SOFTWARE, frozenset({"worker"}), proved)


@pytest.mark.parametrize("proved", [None, "worker"])
def test_an_introduction_that_goes_together_is_taken_and_welcomed(proved):
    dialer = ConnectingHandshake(hello())
    assert listener(proved).receive(dialer.hello) == hello()
    dialer.receive(WELCOME)
    assert dialer.welcome == WELCOME


@pytest.mark.parametrize("proved", ["client", "head"])
def test_the_role_must_be_the_certificates(proved):
    with pytest.raises(AuthenticationError, match=f"'worker', and its certificate says '{proved}'"):
        listener(proved).receive(hello())


def test_a_role_that_is_not_expected_here_is_refused_though_the_certificate_bears_it_out():
    with pytest.raises(AuthenticationError, match="no peer may connect as 'client' here"):
        listener("client").receive(hello(role="client"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"python": "3.12.1"}, r"Python 3\.11\.7.*3\.12\.1"),
        ({"serializers": {"dill": "0.3.9"}}, r"dill 0\.4\.1.*0\.3\.9"),
        ({"serializers": {}}, r"dill 0\.4\.1.*none"),
        ({"protocol_low": LATER, "protocol_high": LATER + 1}, f"protocol {PROTOCOL}.*{LATER} to {LATER + 1}"),
    ],
)
def test_versions_that_do_not_go_together_are_refused_by_name(changes, words):
    with pytest.raises(VersionMismatchError, match=words):
        listener().receive(hello(**changes))


@pytest.mark.parametrize(
    ("changes", "is_admitted"),
    [({}, True), ({"received": 0}, False), ({"session": "s"}, False), ({"protocol_low": LATER}, False)],
)
def test_a_client_that_only_asks_may_have_other_versions_but_speaks_the_same_protocol(changes, is_admitted):
    asks = hello(role="client", python="3.12.1", serializers={}, protocol_high=LATER, **changes)
    accepting = AcceptingHandshake(SOFTWARE, frozenset({"client"}))
    if is_admitted:
        assert accepting.receive(asks) == asks
    else:
        with pytest.raises(VersionMismatchError):
            accepting.receive(asks)


def test_a_later_protocols_introduction_is_understood_well_enough_to_be_refused_by_name():
    later = [
        1,
        *msgspec.to_builtins(hello(protocol_low=LATER, protocol_high=LATER), builtin_types=[bytes])[1:],
        "a field of tomorrow's",
        {"x": 1},
    ]
    header = msgspec.msgpack.encode(later)
    (frame,) = FrameDecoder().feed(len(header).to_bytes(4, "little") + bytes(4) + header)
    with pytest.raises(VersionMismatchError, match=f"speaks {LATER} to {LATER}"):
        listener().receive(frame.message)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "n1\x1b[2J"},
        {"name": "n1\nhead INFO all is well"},
        {"name": ""},
        {"block": "cpu-7\x1b[2J"},
        {"host": "node3\n"},
        {"name": "n" * 256},
        {"incarnation": "\0"},
        {"python": "3.11.2\r\n"},
        {"serializers": {"dill": "0.4.0\n"}},
        {"serializers": {"dill": "0.4.0", "\x07": "1"}},
    ],
)
def test_words_that_could_write_on_a_terminal_are_refused_and_shown_escaped(changes):
    with pytest.raises(ProtocolError, match="printable") as caught:
        listener().receive(hello(**changes))
    assert str(caught.value).isprintable()


def test_a_refusal_reaches_the_dialer_as_its_own_type():
    with pytest.raises(VersionMismatchError, match="too old"):
        ConnectingHandshake(hello()).receive(AcceptingHandshake.refusal(VersionMismatchError("too old")))


def test_a_refusal_of_a_kind_that_is_not_known_is_one_all_the_same():
    with pytest.raises(ProtocolError, match="for a reason of tomorrow's"):
        ConnectingHandshake(hello()).receive(Refused("NewError", "for a reason of tomorrow's"))


@pytest.mark.parametrize("message", [Beat(1), WELCOME, Refused("ProtocolError", "")])
def test_messages_out_of_turn_are_refused(message):
    with pytest.raises(ProtocolError, match="was not expected"):
        listener().receive(message)


def test_a_second_welcome_and_anything_before_the_first_are_out_of_turn():
    dialer = ConnectingHandshake(hello())
    with pytest.raises(ProtocolError, match="Beat was not expected"):
        dialer.receive(Beat(1))
    dialer.receive(WELCOME)
    with pytest.raises(ProtocolError, match="Welcome was not expected"):
        dialer.receive(WELCOME)
