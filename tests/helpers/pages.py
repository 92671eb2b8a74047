"""Blocks of the pages of documentation, by what stands behind their opening fence."""

from pathlib import Path

from blocks import blocks_of

__all__ = ["ROOT", "blocks"]

ROOT = Path(__file__).parents[2]


def blocks(page: str, kind: str) -> list[str]:
    """Return the blocks of a page of one kind: `sh` are commands, `bash` scripts, `toml` settings."""
    found = blocks_of((ROOT / page).read_text())
    return [block.body for block in found if block.kind == kind and not block.title]
