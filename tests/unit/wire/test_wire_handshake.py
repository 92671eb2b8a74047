"""The handshake: both ends prove the secret over both nonces, or nobody is believed."""

from __future__ import annotations

import msgspec
import pytest

from grainlike.errors import AuthenticationError, ProtocolError, VersionMismatchError
from grainlike.wire import PROTOCOL, Beat, Challenge, Dialer, Hello, Listener, Proof, Software, Welcome

SECRET = b"s" * 32
SOFTWARE = Software("3.11.7", {"dill": "0.4.1"})


def hello(**changes):
    base = Hello(
        role="worker",
        nonce=b"d" * 32,
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


def listener(secret=SECRET):
    return Listener(secret, b"l" * 32, SOFTWARE, frozenset({"worker"}))


def test_both_ends_come_to_trust_each_other():
    dialer, door = Dialer(SECRET, hello()), listener()
    (challenge,) = door.receive(dialer.start())
    assert door.hello is None
    assert not dialer.proved
    (proof,) = dialer.receive(challenge)
    assert dialer.proved, "what comes in one read with the welcome must be let in"
    assert door.receive(proof) == []
    assert door.hello == hello()
    assert dialer.receive(Welcome("c", 5.0, [], "n1")) == []
    assert dialer.welcome == Welcome("c", 5.0, [], "n1")


def test_a_dialer_without_the_secret_is_refused():
    door = listener()
    door.receive(hello())
    with pytest.raises(AuthenticationError, match="does not know this cluster's secret"):
        door.receive(Proof(b"x" * 32))
    assert door.hello is None


def test_a_listener_without_the_secret_is_refused():
    dialer, impostor = Dialer(SECRET, hello()), listener(b"other")
    (challenge,) = impostor.receive(dialer.start())
    with pytest.raises(AuthenticationError, match="does not know the secret"):
        dialer.receive(challenge)
    assert not dialer.proved


def test_a_proof_cannot_be_reflected():
    """The listener's own proof, sent back to it, is no proof of the dialer's."""
    door = listener()
    (challenge,) = door.receive(hello())
    assert isinstance(challenge, Challenge)
    with pytest.raises(AuthenticationError):
        door.receive(Proof(challenge.proof))


def test_a_proof_cannot_be_replayed_for_another_introduction():
    dialer, first = Dialer(SECRET, hello()), listener()
    (challenge,) = first.receive(dialer.start())
    (proof,) = dialer.receive(challenge)
    second = listener()
    second.receive(hello(name="n2"))
    with pytest.raises(AuthenticationError):
        second.receive(proof)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"python": "3.12.1"}, r"Python 3\.11\.7.*3\.12\.1"),
        ({"serializers": {"dill": "0.3.9"}}, r"dill 0\.4\.1.*0\.3\.9"),
        ({"serializers": {}}, r"dill 0\.4\.1.*none"),
        ({"protocol_low": 2, "protocol_high": 3}, "protocol 1.*2 to 3"),
    ],
)
def test_versions_that_do_not_go_together_are_refused_by_name(changes, words):
    with pytest.raises(VersionMismatchError, match=words):
        listener().receive(hello(**changes))


def test_a_refusal_reaches_the_dialer_as_its_own_type():
    dialer = Dialer(SECRET, hello())
    dialer.start()
    with pytest.raises(VersionMismatchError, match="too old"):
        dialer.receive(Listener.refusal(VersionMismatchError("too old")))


@pytest.mark.parametrize("message", [Beat(1), Proof(b""), Welcome("c", 1.0, [], "n1")])
def test_messages_out_of_turn_are_refused(message):
    with pytest.raises(ProtocolError, match="out of turn"):
        listener().receive(message)


def test_an_unknown_role_is_refused():
    with pytest.raises(AuthenticationError, match="'client'"):
        listener().receive(hello(role="client"))
