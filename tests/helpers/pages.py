"""Blocks of the pages of documentation, by what stands behind their opening fence."""

import re
from pathlib import Path

__all__ = ["ROOT", "blocks"]

ROOT = Path(__file__).parents[2]


def blocks(page: str, kind: str) -> list[str]:
    """Return the blocks of a page of one kind: `sh` are commands, `bash` scripts, `toml` settings."""
    text = (ROOT / page).read_text()
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
