"""Lazy graph of a program: delayed functions, placeholders, and the nodes behind them.

A call of a delayed function, and every operation on a placeholder, makes a `Node`; a `Delayed` points at one, and a
`Stream` at that of an asynchronous generator. `pending_nodes` tells an executor what to do in which order, and the
`Resolver` that it registers is all that the graph knows of it. A `NamedGraph` gives names, costs and an order of their
own to some of the nodes.

The room never runs a job, waits, or serializes. Below it are `resources` and `errors`; beside it `payload` and
`wire`, which it does not know; above it the executor.
"""

from typing import TYPE_CHECKING

from grainlike._later import later as load_later

if TYPE_CHECKING:
    from grainlike.graph._delayed import PICK, Delayed, node_of
    from grainlike.graph._delayed_fn import DelayedFn, StreamFn, delayed
    from grainlike.graph._function import Function, Options, main_file
    from grainlike.graph._gather import LOOKED_AT, READY, delayed_value, gather, later
    from grainlike.graph._named import NamedGraph, NamedJob
    from grainlike.graph._never_awaited import excuse, remember_origins
    from grainlike.graph._node import (
        Node,
        Resolver,
        StreamNode,
        Template,
        current_resolver,
        fetched,
        positional_arguments,
        register,
    )
    from grainlike.graph._pending import pending_nodes, unfinished_nodes
    from grainlike.graph._questions import Info, cancel, info, start
    from grainlike.graph._record import Record
    from grainlike.graph._remote_value import UNFETCHED, RemoteExpression, RemoteList, RemoteValue, ValueFetcher
    from grainlike.graph._retry import Retry
    from grainlike.graph._state import RunsIn, State, Status
    from grainlike.graph._stream import Stream, node_behind
    from grainlike.graph.drawing._picture import Graph, GraphNode, graph
    from grainlike.graph.partitioning._ahead import arguments_ahead, operators_before, whole_graph
    from grainlike.graph.partitioning._partition import Partition
    from grainlike.graph.partitioning._pieces import ATOMS, Given, Hole, Piece, Step, Steps, pieces_of

__all__ = [
    "ATOMS",
    "LOOKED_AT",
    "PICK",
    "READY",
    "UNFETCHED",
    "Delayed",
    "DelayedFn",
    "Function",
    "Given",
    "Graph",
    "GraphNode",
    "Hole",
    "Info",
    "NamedGraph",
    "NamedJob",
    "Node",
    "Options",
    "Partition",
    "Piece",
    "Record",
    "RemoteExpression",
    "RemoteList",
    "RemoteValue",
    "Resolver",
    "Retry",
    "RunsIn",
    "State",
    "Status",
    "Step",
    "Steps",
    "Stream",
    "StreamFn",
    "StreamNode",
    "Template",
    "ValueFetcher",
    "arguments_ahead",
    "cancel",
    "current_resolver",
    "delayed",
    "delayed_value",
    "excuse",
    "fetched",
    "gather",
    "graph",
    "info",
    "later",
    "main_file",
    "node_behind",
    "node_of",
    "operators_before",
    "pending_nodes",
    "pieces_of",
    "positional_arguments",
    "register",
    "remember_origins",
    "start",
    "unfinished_nodes",
    "whole_graph",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = load_later(
        __name__,
        {
            "ATOMS": "partitioning._pieces",
            "Delayed": "_delayed",
            "DelayedFn": "_delayed_fn",
            "Function": "_function",
            "Given": "partitioning._pieces",
            "Graph": "drawing._picture",
            "GraphNode": "drawing._picture",
            "Hole": "partitioning._pieces",
            "Info": "_questions",
            "LOOKED_AT": "_gather",
            "NamedGraph": "_named",
            "NamedJob": "_named",
            "Node": "_node",
            "Options": "_function",
            "PICK": "_delayed",
            "Partition": "partitioning._partition",
            "Piece": "partitioning._pieces",
            "READY": "_gather",
            "Record": "_record",
            "RemoteExpression": "_remote_value",
            "RemoteList": "_remote_value",
            "RemoteValue": "_remote_value",
            "Resolver": "_node",
            "Retry": "_retry",
            "RunsIn": "_state",
            "State": "_state",
            "Status": "_state",
            "Step": "partitioning._pieces",
            "Steps": "partitioning._pieces",
            "Stream": "_stream",
            "StreamFn": "_delayed_fn",
            "StreamNode": "_node",
            "Template": "_node",
            "UNFETCHED": "_remote_value",
            "ValueFetcher": "_remote_value",
            "arguments_ahead": "partitioning._ahead",
            "cancel": "_questions",
            "current_resolver": "_node",
            "delayed": "_delayed_fn",
            "delayed_value": "_gather",
            "excuse": "_never_awaited",
            "fetched": "_node",
            "gather": "_gather",
            "graph": "drawing._picture",
            "info": "_questions",
            "later": "_gather",
            "main_file": "_function",
            "node_behind": "_stream",
            "node_of": "_delayed",
            "operators_before": "partitioning._ahead",
            "pending_nodes": "_pending",
            "pieces_of": "partitioning._pieces",
            "positional_arguments": "_node",
            "register": "_node",
            "remember_origins": "_never_awaited",
            "start": "_questions",
            "unfinished_nodes": "_pending",
            "whole_graph": "partitioning._ahead",
        },
    )
