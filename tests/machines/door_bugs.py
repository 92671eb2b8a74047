"""Bugs made by hand in what lets people in: with any of them, the tests of intruders must be red; see `seeded_bugs`."""

from __future__ import annotations

from seeded_bugs import Bug, Change

__all__ = ["DOOR_BUGS", "DOOR_SUITES"]

DOOR_SUITES = {
    "hostile": "tests/integration/faults/test_faults_hostile.py",
    "tls": "tests/unit/net/test_net_tls.py",
}

_TLS = "net/_tls.py"
_ASKS = "    certificate: dict[str, Any] = peer.getpeercert() or {}\n"


def _bug(name: str, breaks: str, suite: str, *changes: tuple[str, str, str]) -> Bug:
    return Bug(name, "door", breaks, suite, tuple(Change(*change) for change in changes))


DOOR_BUGS: tuple[Bug, ...] = (
    _bug(
        "ask_nobody_for_a_certificate",
        "whoever dials is a worker",
        "hostile",
        (
            _TLS,
            "    context.verify_mode = ssl.CERT_REQUIRED\n",
            "    if protocol == ssl.PROTOCOL_TLS_CLIENT:\n        context.verify_mode = ssl.CERT_REQUIRED\n",
        ),
        (
            _TLS,
            _ASKS,
            _ASKS + '    if not certificate:\n        return "worker"\n',
        ),
    ),
    _bug(
        "believe_what_one_says_of_oneself",
        "a worker that says so is a client, and submits jobs",
        "hostile",
        ("wire/_handshake.py", "if self._proved is not None and message.role != self._proved:", "if False:"),
    ),
    _bug(
        "take_any_member_for_the_head",
        "a worker of the cluster can play its head to others",
        "tls",
        (_TLS, "context.check_hostname = True", "context.check_hostname = False"),
        (
            _TLS,
            "raise AuthenticationError(f\"the other end's certificate is none of",
            "return ROLES[0]\n    raise AuthenticationError(f\"the other end's certificate is none of",
        ),
    ),
)
