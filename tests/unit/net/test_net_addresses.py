"""Addresses read back what they write, and refuse the rest by name."""

from pathlib import Path

import pytest

from grainlike.net import TcpAddress, UnixAddress, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("tcp://127.0.0.1:7777", TcpAddress("127.0.0.1", 7777)),
        ("tcp://localhost:0", TcpAddress("localhost", 0)),
        ("tcp://[::1]:65535", TcpAddress("::1", 65535)),
        ("tcp://node-3.cluster:80", TcpAddress("node-3.cluster", 80)),
        ("unix:///run/g/head.sock", UnixAddress(Path("/run/g/head.sock"))),
        ("unix:///with space/ü.sock", UnixAddress(Path("/with space/ü.sock"))),
    ],
)
def test_an_address_reads_back(text: str, address: TcpAddress | UnixAddress) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "tcp://HOST:PORT or unix:///PATH"),
        ("127.0.0.1:7777", "tcp://HOST:PORT or unix:///PATH"),
        ("http://127.0.0.1:7777", "tcp://HOST:PORT or unix:///PATH"),
        ("tcp://127.0.0.1", "needs a host and a port"),
        ("tcp://:7777", "needs a host and a port"),
        ("tcp://127.0.0.1:", "needs a host and a port"),
        ("tcp://127.0.0.1:80/x", "needs a host and a port"),
        ("tcp://127.0.0.1:-1", "needs a host and a port"),
        ("tcp://::1:80", "needs a host and a port"),
        ("tcp://user@host:80", "needs a host and a port"),
        ("tcp://127.0.0.1:65536", "over 65535"),
        ("tcp://[nonsense]:80", "not an IPv6 address"),
        ("unix://relative/path", "absolute path"),
        ("unix://", "absolute path"),
        ("unix:///folder/", "absolute path"),
        ("unix:///nul\0byte", "absolute path"),
        ("unix:///" + "x" * 107, "has 108 bytes; a Unix socket's has at most 107"),
    ],
)
def test_what_is_no_address_is_refused_by_name(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_address(text)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_is_known(host: str) -> None:
    assert TcpAddress(host, 1).is_loopback


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.evil.org", "127.0.0.1.evil.org"]
)
def test_nothing_else_is_loopback(host: str) -> None:
    assert not TcpAddress(host, 1).is_loopback
