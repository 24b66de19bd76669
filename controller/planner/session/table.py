"""The arrays of a session and the layout of their rows."""

from typing import NamedTuple

import numpy as np

from heddle.controller.planner.ground.jit import Floats, Ints, Rows, Small, row

DEAD = 1e30
"""Inverse capacity and utilisation of a link that cannot carry traffic."""

_WORD, _HALF = np.int64, np.int32

FLOW = row(
    [
        ("source", _WORD),  # leaf row
        ("target", _WORD),  # leaf row
        ("demand", _WORD),  # bit/s
        ("stamp", _WORD),  # the last counter `tick` at which a kernel marked the flow
        ("fresh", _WORD),  # the last event that placed or moved it
        ("held", _WORD),  # 1: bound to the path of its addresses, must not move
        ("job", _WORD),
        ("layer", _WORD),  # row of `Arrays.layer_load`, -1 where its job has one phase
        ("path", _WORD, 4),  # links: up, up to the core, down from the core, down; -1 for none
        ("after", _WORD, 4),  # the next node in the list of each of these links, -1 for none
        ("before", _WORD, 4),  # the previous node
        ("tenant", _WORD),
        ("spare", _WORD, 3),
    ]
)
"""A flow: three cache lines, of which the first holds what a chain reads of a flow that it passes."""

LINK = row([("load", np.float64), ("inverse", np.float64), ("head", _WORD), ("spare", _WORD)])
"""A link: load in bit/s, 1 / capacity and the first node of its list, in half a cache line."""

CHANGE = row([("flow", _WORD), ("fresh", _WORD), ("path", _WORD, 4), ("after", _WORD, 4), ("before", _WORD, 4)])
"""A row of the log: a flow, and its last event, path and list neighbours before a change."""


class Counters(NamedTuple):
    """The fields of `Arrays.counter` as arrays of one number: reading these in Python is faster than a record's."""

    logged: Ints  # rows in the log
    tick: Ints  # the last stamp used
    event: Ints  # number of the event
    used: Ints  # flows that the event has moved
    who: Ints  # which flows may move: a `Movable`
    budget: Ints  # flows that the event may move
    thrifty: Ints  # 0: stops at the first chain, 1: finds the fewest moves, 2: the same, with no moves of others
    tries: Ints  # flows for which chains may still be searched
    job: Ints  # job of the flow that is being placed
    tenant: Ints  # and its tenant
    reserve: Ints  # rows of the log kept free
    pair: Ints  # bit/s of any two flows, where all flows and all cables are alike; 0 elsewhere


COUNTER = row([(name, _WORD) for name in Counters._fields])

CHAIN = row([(name, _WORD) for name in ("length", "into", "out", "right", "core", "allowed")])
"""A chain: flows to move, the two columns that they exchange, and 1 where column `into` is taken on the right.

`core` and `allowed` serve `fewest`: the core of a path, and the number of moves to which the search was limited.
"""

SPOT = row([("leaf", _HALF, 2), ("column", _HALF), ("core", _HALF)])
"""The source and target leaf of a flow, its column and its core; -1: none, -2: not the same up and down."""

SPAN = row([("first", _WORD), ("end", _WORD)])
"""A range of rows."""


class Arrays(NamedTuple):
    """The arrays that the kernels of a session read and change, with a row per flow, link, leaf or column.

    `up_leaf[leaf, column]` and `up_plane[pod * planes + plane, core]` are cables; `planes` is 0 in two tiers, and
    `plane_at` is the plane of a leaf's cable. A flow of a job with several phases has a layer, its row of
    `layer_load`; the job adds to the load of a link the heaviest of its layers, the rows `layer_span`. Node 4 f + step
    of a list is flow f. `chain` lists the flows of a chain, `carried` those of a chain while it is carried out, and
    `best` the chains found. `counter` has one row. The last five fields are the tables of `seats.Seats`, which these
    kernels keep current; `seat_of[link]` is -1 where the fabric has none.
    """

    cables: int
    planes: int
    inverse: Floats
    load: Floats
    head: Ints
    flow: Rows
    up_leaf: Ints
    up_plane: Ints
    plane_of: Ints
    plane_at: Ints
    pod: Ints
    layer_load: Floats
    layer_span: Rows
    log: Rows
    chain: Ints
    carried: Ints
    best: Rows
    counter: Rows
    shift: int
    seat_of: Small
    owner: Small
    free: Ints
    spot: Rows
