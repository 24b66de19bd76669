"""Random fabrics and failures for the property tests of the rules."""

from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.health import Health
from controller.model.steering import layout_of
from tests.unit.rules.builders import FIRST_IP, Builder, clos3, rail, spine_leaf


@st.composite
def two_tier(draw) -> Fabric:
    spines, leaves = draw(st.integers(1, 9)), draw(st.integers(1, 5))
    nics = draw(st.integers(1, 3))
    gbps = draw(st.lists(st.sampled_from([50, 100, 200]), min_size=1, max_size=spines))
    links = draw(st.integers(1, 3)) if spines <= 4 else 1
    scattered = draw(st.booleans())
    ips = None
    if scattered:
        spread = st.integers(FIRST_IP, FIRST_IP + draw(st.sampled_from([40, 2**16])))
        ips = draw(st.lists(spread, min_size=leaves * nics, max_size=leaves * nics, unique=True))
    return spine_leaf(spines, leaves, nics, links, gbps, ips)


@st.composite
def rails(draw) -> Fabric:
    return rail(draw(st.integers(1, 2)), draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 5)))


@st.composite
def three_tier(draw) -> Fabric:
    return clos3(
        pods=draw(st.integers(1, 3)),
        leaves=draw(st.integers(1, 3)),
        aggs=draw(st.integers(1, 3)),
        cores_per_agg=draw(st.integers(1, 3)),
        nics_per_leaf=draw(st.integers(1, 2)),
        core_links=draw(st.integers(1, 2)),
        agg_links=draw(st.integers(1, 2)),
    )


@st.composite
def irregular(draw) -> Fabric:
    """Return a drawn fabric: spines that lead to some leaves only, the first of them to all."""
    build = Builder()
    full = two = None
    base = draw(st.sampled_from(["two", "three"]))
    if base == "two":
        full = draw(two_tier())
    else:
        two = draw(three_tier())
    fabric = full or two
    assert fabric is not None
    build.switches = list(fabric.switches)
    kept = [cable for cable in fabric.cables if draw(st.integers(0, 5))]
    return Fabric(name="drawn", switches=fabric.switches, cables=tuple(kept), nics=fabric.nics)


def fabrics() -> st.SearchStrategy[Fabric]:
    return st.one_of(two_tier(), rails(), three_tier())


@st.composite
def failures(draw, fabric: Fabric, most: int = 3) -> Health:
    cables = [cable.id for cable in fabric.cables]
    tops = [switch.id for switch in fabric.switches if switch.role.value != "leaf"]
    down = draw(st.lists(st.sampled_from(cables), max_size=most, unique=True)) if cables else []
    down_switches = draw(st.lists(st.sampled_from(tops), max_size=1)) if tops else []
    return Health(down_cables=frozenset(down), down_switches=frozenset(down_switches))


def names_paths(fabric: Fabric) -> bool:
    """Say whether a source port has bits enough for the fabric."""
    try:
        layout_of(fabric)
    except ValueError:
        return False
    return True
