"""What a session changes and reads, as arrays that are handed to its kernels."""

from typing import NamedTuple

from controller.planner.jit import Floats, Ints, Small


class State(NamedTuple):
    """What a session changes and reads: a row per flow, link, leaf or column.

    `up_leaf[leaf, column]` and `up_plane[pod * planes + plane, core]` are cables; `planes` is 0 in two tiers and
    `plane_at` a leaf cable's plane. A flow's layer is its row of `layer_load` where its job has several phases, else
    -1: a job adds to a link's `load` the heaviest of its rows `layer_span`. Node 4 f + step of a list is flow f.
    The last five are the tables of `seats.Seats`, kept up to date here; `seat_of[link]` is -1 where there are none.
    """

    cables: int
    planes: int
    inverse: Floats
    load: Floats
    head: Ints
    flow: Ints
    up_leaf: Ints
    up_plane: Ints
    plane_of: Ints
    plane_at: Ints
    pod: Ints
    layer_load: Floats
    layer_span: Ints
    log: Ints
    chain: Ints
    best: Ints
    counter: Ints
    shift: int
    seat_of: Small
    owner: Small
    free: Ints
    spot: Small
