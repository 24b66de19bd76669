"""Draw the fabric in layers: spines above leaves above NICs, each cable as two lines, one per direction.

The colour of a line is the offered load of its direction: grey if idle, green up to capacity, then amber to red.
"""

from collections.abc import Mapping

from heddle.mininet_topos.demo.report.markup import Markup, tag
from heddle.mininet_topos.demo.results.values import FabricSketch, LinkResult

WIDTH = 380.0
LAYER_HEIGHT = 92.0
MARGIN = 24.0
NIC_RADIUS = 9.0
GAP = 2.6
"""Half the distance between the two directions of a cable."""

LOADS = ((0.0, "idle"), (0.5, "light"), (1.0 + 1e-6, "full"), (1.5 + 1e-6, "over"), (2.0 + 1e-6, "double"))
LEGEND = (
    ("idle", "idle"),
    ("light", "up to half"),
    ("full", "up to capacity"),
    ("over", "to 1.5×"),
    ("double", "to 2×"),
    ("worst", "beyond"),
)

Point = tuple[float, float]


def load_class(offered: float) -> str:
    """Return the colour class of an offered load."""
    return next((name for limit, name in LOADS if offered <= limit), "worst")


def draw_fabric(sketch: FabricSketch, links: Mapping[str, LinkResult], title: str) -> Markup:
    """Draw the fabric with the loads of one run; `title` is the accessible name (aria-label)."""
    places = _places(sketch)
    height = max(y for _, y in places.values()) + MARGIN
    lines = [
        line
        for a, b in [*sketch.cables, *((nic, port) for nic, _, port in sketch.nics)]
        for line in _cable(places, links, a, b)
    ]
    return tag(
        "svg",
        tag("title", title),
        lines,
        [_switch(switch, places[switch]) for switch, _ in sketch.switches],
        [_nic(nic, places[nic], len(sketch.nics)) for nic, _, _ in sketch.nics],
        viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
        role="img",
        aria_label=title,
        class_="fabric",
    )


def legend() -> Markup:
    """Return the legend of the line colours."""
    keys = [tag("span", tag("i", "", class_=f"key {name}"), text) for name, text in LEGEND]
    return tag("p", "Load offered to a link: ", keys, class_="legend")


def _places(sketch: FabricSketch) -> dict[str, Point]:
    """Return the positions of switches and NICs: layers from the top, evenly spread, NICs below their leaf."""
    tiers = sorted({tier for _, tier in sketch.switches}, reverse=True)
    places: dict[str, Point] = {}
    for depth, tier in enumerate(tiers):
        row = [switch for switch, of in sketch.switches if of == tier]
        for index, switch in enumerate(row):
            places[switch] = ((index + 0.5) * WIDTH / len(row), MARGIN + depth * LAYER_HEIGHT)
    nics = sorted(sketch.nics, key=lambda nic: places[_switch_of(nic[2])][0])
    for index, (nic, _, _) in enumerate(nics):
        places[nic] = ((index + 0.5) * WIDTH / len(nics), MARGIN + len(tiers) * LAYER_HEIGHT * 0.94)
    return places


def _switch_of(port: str) -> str:
    return port.rpartition(":")[0] or port


def _cable(places: Mapping[str, Point], links: Mapping[str, LinkResult], a: str, b: str) -> list[Markup]:
    """Draw both directions of a cable side by side, each on the right in its direction of travel."""
    start, end = (places[_switch_of(side)] if ":" in side else places[side] for side in (a, b))
    length = ((end[0] - start[0]) ** 2 + (end[1] - start[1]) ** 2) ** 0.5 or 1.0
    dx, dy = (end[1] - start[1]) / length * GAP, -(end[0] - start[0]) / length * GAP
    return [
        _direction(links.get(f"{a}>{b}"), f"{a}>{b}", (start[0] - dx, start[1] - dy), (end[0] - dx, end[1] - dy)),
        _direction(links.get(f"{b}>{a}"), f"{b}>{a}", (start[0] + dx, start[1] + dy), (end[0] + dx, end[1] + dy)),
    ]


def _direction(load: LinkResult | None, link: str, start: Point, end: Point) -> Markup:
    offered = load.offered_utilisation if load else 0.0
    title = (
        f"{link}: offered {offered:.2f}, measured {load.measured_utilisation:.2f}, {load.queue_pairs} queue pairs"
        if load
        else f"{link}: idle"
    )
    return tag(
        "line",
        tag("title", title),
        x1=start[0],
        y1=start[1],
        x2=end[0],
        y2=end[1],
        class_=f"link {load_class(offered)}",
    )


def _switch(name: str, place: Point) -> Markup:
    width = max(34.0, 7.0 * len(name) + 8)
    return tag(
        "g",
        tag("rect", x=place[0] - width / 2, y=place[1] - 11, width=width, height=22.0, rx=5.0, class_="switch"),
        tag("text", name, x=place[0], y=place[1] + 4, class_="name"),
    )


def _nic(name: str, place: Point, among: int) -> Markup:
    radius = min(NIC_RADIUS, WIDTH / among / 2.4)
    short = name.partition("-")[0]
    label = tag("text", short, x=place[0], y=place[1] + 3.2, class_="name small") if radius > 8 else None
    return tag("g", tag("title", name), tag("circle", cx=place[0], cy=place[1], r=radius, class_="nic"), label)
