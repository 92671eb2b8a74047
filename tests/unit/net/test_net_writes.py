"""Few writes, and no copy of what is large."""

from grainlike.net._writes import CHUNK, writes


def test_small_pieces_are_joined_and_large_ones_never_copied() -> None:
    large = bytes(CHUNK + 1)
    out = list(writes([b"a", b"b", large, b"c"]))
    assert out[0] == b"ab"
    assert [len(data) for data in out[1:3]] == [CHUNK, 1]
    assert all(isinstance(data, memoryview) and data.obj is large for data in out[1:3])
    assert out[3] == b"c"
