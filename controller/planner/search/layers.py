"""The load of links by jobs of several phases, for a search: only the heaviest phase of a job counts on a link.

A *layer* is one phase of one such job. The flows of all jobs of one phase form one more layer, whose number is -1:
every flow of it counts. Layers of one job have adjacent numbers.
"""

from typing import NamedTuple

import numpy as np

from heddle.controller.planner.ground.jit import Floats, Ints, Rows, bare_kernel, row
from heddle.controller.planner.ground.loads import Layers
from heddle.controller.planner.ground.segments import LoadedNet

MAX_CELLS = 20_000_000
"""The limit of links times layers for a joint search: 160 MB."""


class Phased(NamedTuple):
    """Load per link and layer in bit/s, and the number of flows on each link.

    `amount[link, layer]` is the load of a layer, `job[layer]` the job of a layer and `begin[job]` its first layer.
    """

    amount: Floats
    job: Ints
    begin: Ints
    flows: Ints


GUARD = row([("load", np.float64), ("flows", np.int64), ("limit", np.float64)])
"""What a link carries of a priority: load in bit/s of it and all above it, its flows, and the limit of that load's
utilisation where there are such flows."""


class Higher(NamedTuple):
    """The priorities above the one that is planned, a row each from the highest down.

    `row` is the row of each flow's priority; flows of the priority that is planned have the number after the last row.
    `guard` has a `GUARD` for each row and link. A link with a flow of a priority must end within that one's limit.
    One array instead of three: kernels pass the arrays of a tuple one by one.
    """

    row: Ints
    guard: Rows


def phased(layers: Layers, links: int) -> tuple[Ints, Phased] | None:
    """Return the layer of each flow and empty loads; None where these would take too much memory."""
    _, job, of_job = np.unique(layers.job, return_index=True, return_inverse=True)
    counts = np.bincount(of_job, minlength=len(job))
    several = counts[of_job] > 1
    number = np.where(several, np.cumsum(several) - 1, -1)
    size = int(several.sum())
    if size * links > MAX_CELLS:
        return None
    owners, owner = np.unique(layers.job[several], return_inverse=True)
    begin = np.searchsorted(owner, np.arange(len(owners) + 1)).astype(np.int64)
    empty = Phased(np.zeros((links, size)), owner.astype(np.int64), begin, np.zeros(links, dtype=np.int64))
    return number[layers.of_flow].astype(np.int64), empty


@bare_kernel
def growth(loads: Phased, link: int, layer: int, demand: float) -> tuple[float, float]:
    """Return what `demand` more bit/s of a layer, maybe below 0, change on a link.

    Returns by how much the load grows, and how far below the load the layer's own one is then: the load of the link
    while the job is in that phase.
    """
    if layer < 0:
        return demand, 0.0
    job, others = loads.job[layer], 0.0
    for other in range(loads.begin[job], loads.begin[job + 1]):
        if other != layer:
            others = max(others, loads.amount[link, other])
    own = loads.amount[link, layer]
    heaviest = max(others, own + demand)
    return heaviest - max(others, own), heaviest - own - demand


@bare_kernel
def carry(net: LoadedNet, loads: Phased, link: int, layer: int, demand: float) -> None:
    """Add a flow of `demand` bit/s to a link, or remove one where that is below 0."""
    net.load[link] += growth(loads, link, layer, demand)[0]
    loads.flows[link] += 1 if demand > 0 else -1
    if layer >= 0:
        loads.amount[link, layer] += demand


@bare_kernel
def breach(net: LoadedNet, higher: Higher, first: int, link: int, more: float, enters: bool) -> float:
    """Return the sum of squares by which a link with `more` bit/s is above the limits of the rows from `first` on.

    `enters` is whether a flow of row `first` comes to the link.
    """
    total = 0.0
    for level in range(first, higher.guard.shape[0]):
        guard = higher.guard[level, link]
        if guard.flows > 0 or (enters and level == first):
            over = max(0.0, (guard.load + more) * net.inverse[link] - guard.limit)
            total += over * over
    return total


@bare_kernel
def seen_breach(
    net: LoadedNet, loads: Phased, higher: Higher, first: int, link: int, layer: int, demand: float
) -> float:  # fmt: skip
    """Return what a flow of row `first` sees of a link's `breach`, with `demand` more bit/s of its layer."""
    more, below = growth(loads, link, layer, demand)
    enters = demand > 0
    return breach(net, higher, first, link, more, enters) + breach(net, higher, first, link, more - below, enters)
