"""Explain wrong plugs step by step: each step names causes and undoes them in the cabling as heard."""

from collections.abc import Iterable, Iterator

from heddle.controller.cabling.blocks import Block, Shape, moved_blocks
from heddle.controller.cabling.cause import Cause, CauseKind, listed
from heddle.controller.cabling.ends import NONE, Ends
from heddle.controller.cabling.exchanges import Exchange, exchanges, loops
from heddle.controller.cabling.nodes import displaced_nodes, places_of_plugs
from heddle.controller.cabling.observed import LIT, Observed
from heddle.controller.model.fabric import PortRef

MAX_ROUNDS = 8
"""How often a step looks again at what is left; faults that hide others are seldom more than two deep."""
MIN_NODE_GAIN = 2
"""Cables that an exchange of nodes must put right, less those that it makes wrong: more than one exchange of plugs."""

_KIND_OF_SHAPE = {
    Shape.SHIFTED: CauseKind.SHIFTED,
    Shape.EXCHANGED: CauseKind.BLOCKS,
    Shape.REVERSED: CauseKind.REVERSED,
    Shape.PAIRS: CauseKind.PAIRS,
}


def undo_nodes(observed: Observed) -> Iterator[Cause]:
    """Yield whole switches and hosts in the place of others, and put them back."""
    for _ in range(MAX_ROUNDS):
        gained = False
        for row in displaced_nodes(observed):
            places = places_of_plugs(observed, row)
            if _gain(observed, places) > (MIN_NODE_GAIN if _is_closed(observed, row) else 0):
                yield _nodes_cause(observed, row, places)
                observed.move(places)
                gained = True
        if not gained:
            return


def undo_blocks(observed: Observed) -> Iterator[Cause]:
    """Yield runs of ports whose plugs moved alike, and put them back."""
    for _ in range(MAX_ROUNDS):
        found = moved_blocks(observed)
        for block in found:
            yield _block_cause(observed, block)
            observed.move(block.places)
        if not found:
            return


def undo_exchanges(observed: Observed) -> Iterator[Cause]:
    """Yield single exchanges, and moves to free ports, and undo them: no plug is in a wrong port afterwards."""
    for loop in loops(observed):
        for exchange in exchanges(loop, observed.ends):
            yield _exchange_cause(observed, exchange)
            observed.move({exchange.first: exchange.second, exchange.second: exchange.first})


def cables_of(ends: Ends, these: Iterable[int]) -> tuple[str, ...]:
    """Return the ids of the cables that belong at these ends, each once."""
    return tuple(filter(None, dict.fromkeys(ends.cable_id(end) for end in these)))


def ports_of(ends: Ends, these: Iterable[int]) -> tuple[PortRef, ...]:
    """Return the switch ports among these ends."""
    return tuple(port for end in these if (port := ends.port[end]) is not None)


def _gain(observed: Observed, places: dict[int, int]) -> int:
    """Return how many more plugs are right once each is in its place."""
    expected, met = observed.ends.expected, observed.met
    gain = 0
    for end, place in places.items():
        far = met[end]
        if far != NONE:
            gain += (expected[place] == places.get(far, far)) - (expected[end] == far)
    return gain


def _is_closed(observed: Observed, row: tuple[int, ...]) -> bool:
    """Return whether the last node of a row is heard, so that it is in the place of the first."""
    node = observed.ends.node
    return any(far != NONE and node[end] == row[-1] for end, far in enumerate(observed.met))


def _nodes_cause(observed: Observed, row: tuple[int, ...], places: dict[int, int]) -> Cause:
    ends = observed.ends
    names = [ends.node_names[node] for node in row]
    wrong = [end for end in places if observed.met[end] not in (ends.expected[end], NONE)]
    is_cycle = _is_closed(observed, row)
    pairs = list(zip(names, names[1:] + names[:1], strict=True))[: len(names) if is_cycle else -1]
    if is_cycle and len(names) == 2:
        text = f"{names[0]} and {names[1]} are exchanged: each is in the other's place, or has its name"
    else:
        text = listed([f"{name} is in the place of {place}" for name, place in pairs])
    cables = cables_of(ends, (end for end in (*wrong, *(places[end] for end in wrong))))
    ports = ports_of(ends, wrong) or ports_of(ends, (observed.met[end] for end in wrong))
    return Cause(kind=CauseKind.NODES, text=text, cables=cables, ports=ports, nodes=tuple(names))


def _block_cause(observed: Observed, block: Block) -> Cause:
    ends = observed.ends
    these = [end for end in block.places if ends.node[end] == block.node or block.node != block.place]
    first = ends.find(block.node, block.first)
    last = ends.find(block.node, block.last)
    run = f"{ends.name(first)} to {ends.name(last)}"
    length = block.last - block.first
    match block.shape:
        case Shape.SHIFTED:
            # Of the two at its ends, one goes around to the other end of the run.
            near = min((first, last), key=lambda end: abs(ends.number[block.places[end]] - ends.number[end]))
            text = f"the plugs of {run} are shifted: the one in {ends.name(near)} belongs in "
            text += ends.name(block.places[near])
        case Shape.EXCHANGED:
            low, high = ends.find(block.place, block.at), ends.find(block.place, block.at + length)
            text = f"{run} and {ends.name(low)} to {ends.name(high)} are exchanged"
        case Shape.REVERSED if block.node != block.place:
            low, high = ends.find(block.place, block.at), ends.find(block.place, block.at + length)
            text = f"{run} and {ends.name(high)} to {ends.name(low)} are exchanged, in reverse order"
        case Shape.REVERSED:
            text = f"the plugs of {run} are in reverse order"
        case Shape.PAIRS:
            text = f"the plugs of {run} are exchanged in pairs"
    return Cause(
        kind=_KIND_OF_SHAPE[block.shape], text=text, cables=cables_of(ends, these), ports=ports_of(ends, these)
    )


def _exchange_cause(observed: Observed, exchange: Exchange) -> Cause:
    ends, met = observed.ends, observed.met
    first, second = sorted((exchange.first, exchange.second), key=lambda end: (ends.node[end], ends.number[end]))
    cables = cables_of(ends, (first, second))
    if NONE in (ends.expected[first], ends.expected[second]):
        source, place = (first, second) if ends.expected[first] == NONE else (second, first)
    elif any(met[end] == NONE and observed.carrier[end] != LIT for end in (first, second)):
        source, place = (first, second) if met[second] == NONE else (second, first)
    else:
        text = f"{ends.name(first)} and {ends.name(second)} are exchanged"
        instead = sorted(exchange.instead, key=lambda end: (ends.node[end], ends.number[end]))
        if instead:
            text += f", or {ends.name(instead[0])} and {ends.name(instead[1])} at the other ends"
        return Cause(
            kind=CauseKind.EXCHANGED, text=text, cables=cables, ports=ports_of(ends, (first, second)),
            instead=ports_of(ends, instead),
        )  # fmt: skip
    text = f"the plug in {ends.name(source)} belongs in {ends.name(place)}"
    return Cause(kind=CauseKind.MOVED, text=text, cables=cables, ports=ports_of(ends, (source, place)))
