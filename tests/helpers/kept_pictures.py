"""Pictures of the site: tests make each of them again, and compare the words on it with those on the one that is kept.

Numbers and drawings differ from run to run, words do not: a picture that lacks a column or a page that there is now is
red. `make pictures` runs the same tests, which then keep what they have made.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from html import unescape
from pathlib import Path

__all__ = ["check_kept", "with_words"]

DOCS = Path(__file__).parents[2] / "docs"
KEEP = "GRAINLIKE_KEEP_PICTURES"
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_KEY = b"Description\0"


def check_kept(name: str, made: bytes) -> None:
    """Fail if the picture of this name in docs/ has other words; keep the one that was made if that is asked for."""
    kept = DOCS / name
    if os.environ.get(KEEP):
        kept.write_bytes(made)
    now, then = words_of(made), words_of(kept.read_bytes())
    assert len(now) >= 5, now
    assert now == then, f"docs/{name} has {then - now}, and there is {now - then} now: make pictures"


def words_of(picture: bytes) -> set[str]:
    """Return the words on a picture: an SVG, or a PNG that `with_words` has made."""
    if picture.startswith(_SIGNATURE):
        text = " ".join(data.removeprefix(_KEY).decode("latin-1") for kind, data in _chunks(picture) if kind == b"tEXt")
    else:
        text = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", picture.decode()))
    # Settings of a job stand in a bar that is wide enough; a time has the unit that it is long enough for.
    text = re.sub(r"\w+=\S+|[0-9](?:ms|us|min|[\s\xa0](?:ms|µs|us|min))\b", "", unescape(text))
    # Cells of cores are letters of functions: `ffff` is no word.
    return {word for word in re.findall(r"[A-Za-z]{2,}", text) if len(set(word)) > 1}


def with_words(png: bytes, text: str) -> bytes:
    """Return a PNG with a text that describes it."""
    data = _KEY + text.encode("latin-1", "replace")
    chunk = struct.pack(">I", len(data)) + b"tEXt" + data + struct.pack(">I", zlib.crc32(b"tEXt" + data))
    end = len(_SIGNATURE) + 25  # its first chunk, the header, has 13 bytes of data and 12 around them
    return png[:end] + chunk + png[end:]


def _chunks(png: bytes) -> list[tuple[bytes, bytes]]:
    found, at = [], len(_SIGNATURE)
    while at < len(png):
        (size,) = struct.unpack_from(">I", png, at)
        found.append((png[at + 4 : at + 8], png[at + 8 : at + 8 + size]))
        at += size + 12
    return found
