"""Random fabrics and failures for the property tests of the rules."""

from hypothesis import strategies as st

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from tests.unit.rules.builders import FIRST_IP, clos3, rail, spine_leaf


@st.composite
def addresses(draw, count: int) -> list[int] | None:
    """Addresses in order, or scattered, close together or far apart."""
    if draw(st.booleans()):
        return None
    spread = st.integers(FIRST_IP, FIRST_IP + draw(st.sampled_from([count, 40, 2**16])))
    return draw(st.lists(spread, min_size=count, max_size=count, unique=True))


@st.composite
def two_tier(draw) -> Fabric:
    spines, leaves = draw(st.integers(1, 9)), draw(st.integers(1, 5))
    nics = draw(st.integers(1, 3))
    gbps = draw(st.lists(st.sampled_from([50, 100, 200]), min_size=1, max_size=spines))
    links = draw(st.integers(1, 3)) if spines <= 4 else 1
    return spine_leaf(spines, leaves, nics, links, gbps, draw(addresses(leaves * nics)))


@st.composite
def rails(draw) -> Fabric:
    return rail(draw(st.integers(1, 2)), draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 5)))


@st.composite
def three_tier(draw) -> Fabric:
    pods, leaves, nics = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    meshed = draw(st.booleans())
    return clos3(
        pods=pods,
        leaves=leaves,
        aggs=draw(st.integers(1, 3)),
        cores_per_agg=draw(st.integers(1, 1 if meshed else 3)),
        nics_per_leaf=nics,
        core_links=draw(st.integers(1, 2)),
        agg_links=draw(st.integers(1, 2)),
        meshed=meshed,
        ips=draw(addresses(pods * leaves * nics)),
    )


@st.composite
def irregular(draw) -> Fabric:
    """Return a fabric of which about one cable in six was never drawn."""
    fabric = draw(st.one_of(two_tier(), three_tier()))
    kept = tuple(cable for cable in fabric.cables if draw(st.integers(0, 5)))
    return Fabric(name="drawn", switches=fabric.switches, cables=kept, nics=fabric.nics)


def fabrics() -> st.SearchStrategy[Fabric]:
    return st.one_of(two_tier(), rails(), three_tier())


@st.composite
def failures(draw, fabric: Fabric, most: int = 3) -> Health:
    cables = [cable.id for cable in fabric.cables]
    tops = [switch.id for switch in fabric.switches if switch.role.value != "leaf"]
    down = draw(st.lists(st.sampled_from(cables), max_size=most, unique=True)) if cables else []
    down_switches = draw(st.lists(st.sampled_from(tops), max_size=1)) if tops else []
    return Health(down_cables=frozenset(down), down_switches=frozenset(down_switches))
