"""Requests, offers and allocations: what a job asks for, what a node has, and what a job was given.

It answers whether a request fits, which ids it gets, and why no worker can give it; everything in it makes
sense with two requests and no cluster. Amounts are exact: integers of 1e-9 inside, never floats. It never
waits, looks at the machine or decides who goes first. Below it are only the errors; `scheduler` orders
requests, and the worker's ledger turns them into ids.
"""

from typing import TYPE_CHECKING

from grainlike._later import later
from grainlike.resources._allocation import NO_ALLOCATION, Allocation, as_allocation, as_request
from grainlike.resources._fit import fits_tiers
from grainlike.resources._kinds import (
    KINDS,
    MEMORY,
    ResourceKind,
    amount_text,
    amount_texts,
    held_amounts,
    shown_amounts,
)
from grainlike.resources._offer import logical_cores, offer_of
from grainlike.resources._parse import parse, parse_allocation
from grainlike.resources._programs import (
    BINDINGS,
    keep_in_job,
    keep_unbound,
    program_environment,
    spread_over_nodes,
    thread_widths,
)
from grainlike.resources._quantity import UNIT, Amount, number, plain, quantity
from grainlike.resources._request import EMPTY, Request
from grainlike.resources._terms import Pack
from grainlike.resources._terms_words import Limit, Nodes, Rate, Token, WallTime
from grainlike.resources._words import Cores, GPUs, Memory, Node, Resource

if TYPE_CHECKING:
    from grainlike.resources._ledger import Grant, Ledger
    from grainlike.resources._missing import Missing, Short, missing
    from grainlike.resources._near import near_name
    from grainlike.resources._records import Receipt, Usage
    from grainlike.resources._rounding import memory_rounded, with_amounts, with_memory, with_memory_text
    from grainlike.resources._sharing import shareable, widest
    from grainlike.resources._topology import NumaNode, Topology

__all__ = [
    "BINDINGS",
    "EMPTY",
    "KINDS",
    "MEMORY",
    "NO_ALLOCATION",
    "UNIT",
    "Allocation",
    "Amount",
    "Cores",
    "GPUs",
    "Grant",
    "Ledger",
    "Limit",
    "Memory",
    "Missing",
    "Node",
    "Nodes",
    "NumaNode",
    "Pack",
    "Rate",
    "Receipt",
    "Request",
    "Resource",
    "ResourceKind",
    "Short",
    "Token",
    "Topology",
    "Usage",
    "WallTime",
    "amount_text",
    "amount_texts",
    "as_allocation",
    "as_request",
    "fits_tiers",
    "held_amounts",
    "keep_in_job",
    "keep_unbound",
    "logical_cores",
    "memory_rounded",
    "missing",
    "near_name",
    "number",
    "offer_of",
    "parse",
    "parse_allocation",
    "plain",
    "program_environment",
    "quantity",
    "shareable",
    "shown_amounts",
    "spread_over_nodes",
    "thread_widths",
    "widest",
    "with_amounts",
    "with_memory",
    "with_memory_text",
]

# Runners, and programs that only write requests, do without.
if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "Grant": "_ledger",
            "Ledger": "_ledger",
            "Missing": "_missing",
            "NumaNode": "_topology",
            "Receipt": "_records",
            "Short": "_missing",
            "Topology": "_topology",
            "Usage": "_records",
            "memory_rounded": "_rounding",
            "missing": "_missing",
            "near_name": "_near",
            "shareable": "_sharing",
            "widest": "_sharing",
            "with_amounts": "_rounding",
            "with_memory": "_rounding",
            "with_memory_text": "_rounding",
        },
    )
