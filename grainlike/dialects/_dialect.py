"""Dialect of a batch system: what is said to it about blocks, and what its answers mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from grainlike.dialects._block import BlockFile, BlockRequest, CommandResult, NativeCommand
from grainlike.dialects._facts import Answer, Listing, answer_without_id, words_of
from grainlike.dialects._flags import FlagRules, native_lines, replaced_by, why_refused
from grainlike.dialects._script import ScriptStyle, Spread, write_script

__all__ = ["Dialect"]


class Dialect:
    """Text for one batch system, and facts from its text. It runs nothing, and no text of a system's raises.

    Attributes:
        kind: the word for it in settings: `slurm`.
        title: its name for people: `Slurm`.
        prefix: what begins a directive in a script.
        finders: variables by which its commands find it, for `native_environment`.
        spreads: how one worker is started on each node, by the word in settings; the first is what is usual.
        rules: which native flags clash with ours.
        hopeless: words of a refused `check` that a submission would get too, now and later; None: to ask is a
            submission itself.

    Example::

        >>> from grainlike.dialects import SlurmDialect
        >>> SlurmDialect().submitted(CommandResult(0, "1234\\n")).native
        '1234'
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    prefix: ClassVar[str] = "#"
    finders: ClassVar[tuple[str, ...]] = ()
    spreads: ClassVar[dict[str, Spread]] = {}
    rules: ClassVar[FlagRules] = FlagRules({})
    hopeless: ClassVar[re.Pattern[str] | None] = None

    # --- what each system says for itself --------------------------------------------------------------------------

    def directives(self, block: BlockRequest) -> list[str]:
        """Return the lines of the script that are for the batch system, without the user's native flags."""
        raise NotImplementedError

    def submit(self, block: BlockRequest) -> NativeCommand:
        """Return the command that submits a block."""
        raise NotImplementedError

    def submitted(self, said: CommandResult) -> Answer:
        """Return what the answer to `submit` means."""
        found = self.native_id(said.stdout) if said.code == 0 else ""
        if found:
            return Answer("accepted", found, words_of(said))
        answer = answer_without_id(said)
        return Answer("unclear", words=answer.words) if said.code == 0 else answer

    def native_id(self, stdout: str) -> str:
        """Return the id in the answer of a submission; empty if there is none."""
        raise NotImplementedError

    def check(self, block: BlockRequest) -> NativeCommand:
        """Return the command that asks whether the system would take a block."""
        raise NotImplementedError

    def checked(self, said: CommandResult) -> Answer:
        """Return what the answer to `check` means; with a native id in it, that held job is to be ended at once."""
        return self.submitted(said)

    def list(self, user: str, host: str = "") -> tuple[NativeCommand, ...]:
        """Return commands that list the user's blocks, the best first: the next is for systems that fail it."""
        raise NotImplementedError

    def listed(self, said: CommandResult) -> Listing:
        """Return what a listing says of blocks of ours, whichever cluster they are of."""
        raise NotImplementedError

    def end(self, natives: Sequence[str]) -> NativeCommand:
        """Return the command that ends blocks. Only a listing says that they have gone."""
        raise NotImplementedError

    # --- the same for all --------------------------------------------------------------------------------------------

    def style(self, block: BlockRequest) -> ScriptStyle:
        """Return the parts of the script that are this system's."""
        lines = [*self.directives(block), *native_lines(self.prefix, block.native)]
        return ScriptStyle(directives=lines, spread=self.spread(block))

    def script(self, block: BlockRequest) -> str:
        """Return the script of a block.

        Raises:
            ValueError: a path or flag that cannot stand in it, or a script of the user's own that makes no block.
        """
        if block.script is not None:
            self.check_own_script(block.script)
        return write_script(block, self.style(block))

    def files(self, block: BlockRequest) -> tuple[BlockFile, ...]:
        """Return the files to write into the block's directory before it is submitted."""
        return (*block.deliver, BlockFile(block.kept, self.script(block)))

    def spread(self, block: BlockRequest) -> Spread | None:
        """Return how one worker is started on each node; None for blocks of one node."""
        if block.nodes == 1 or not self.spreads:
            return None
        found = self.spreads[block.spread or next(iter(self.spreads))]
        return replace(found, command=found.command.format(nodes=block.nodes, cores=self.cores_of(block)))

    def cores_of(self, block: BlockRequest) -> str:
        """Return shell text of a node's cores."""
        return str(block.cores) if block.cores else "1"

    def check_native(self, words: Sequence[str]) -> None:
        """Check the user's native flags.

        Raises:
            ValueError: one of them clashes with ours, which the error names.
        """
        why = why_refused(self.rules, words)
        if why:
            raise ValueError(f"native: {why}")
        native_lines(self.prefix, words)

    def check_own_script(self, text: str) -> None:
        """Check the directives that a script of the user's own has.

        Raises:
            ValueError: one of them clashes with ours, or the file has Windows' line ends.
        """
        if "\r" in text or "\0" in text:
            raise ValueError("script: its lines end as on Windows, or it is no text")
        for line in text.splitlines():
            if line.startswith(f"{self.prefix} ") and len(self.prefix) > 1:
                why = why_refused(self.rules, line[len(self.prefix) :].split("#")[0].split())
                if why:
                    raise ValueError(f"script: {why}, and leave it to {{{{directives}}}}")

    def says(self, block: BlockRequest, what: str) -> bool:
        """Return True if we say `memory`, `gpus` or `exclusive` ourselves, and no native flag does."""
        return what not in replaced_by(self.rules, block.native)
