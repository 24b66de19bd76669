"""Read topology files of htsim (`*.topo`): a regular fat tree by its sizes, a paragraph per tier.

    Nodes 1024 / Tiers 3 / Podsize 64, then for Tier 0, 1, 2: Downlink_speed_Gbps, Radix_Down, Radix_Up, Bundle ...

Tier 0 is the leaves. The links between tier t and t+1 have the downlink speed of tier t+1 and come in bundles of its
`Bundle`. A fabric that `generate` can describe becomes a `generate`; any other (three tiers with bundles, or with two
link speeds) becomes a list of switches and links.
"""

from collections.abc import Iterator
from typing import NamedTuple

from heddle.controller.config.fabric_file import GenerateShape
from heddle.controller.config.foreign.draft import Draft, DraftLink, DraftPlug, Options, check_rate
from heddle.controller.config.generate import generate_problems
from heddle.controller.config.text.complaint import shown
from heddle.controller.model.limit import MAX_CABLE_BPS, MAX_CABLES, MAX_NIC_BPS, MAX_NICS, MAX_SWITCHES

_HEAD_KEYS = {"nodes", "tiers", "podsize"}
_TIER_KEYS = {
    "downlink_speed_gbps", "radix_down", "radix_up", "bundle", "oversubscribed", "downlink_latency_ns",
    "switch_latency_ns",
}  # fmt: skip
_LARGEST = 10**9


class _Tier(NamedTuple):
    place: str
    downlink_bps: int
    radix_down: int
    radix_up: int
    bundle: int


class _Sizes(NamedTuple):
    pods: int
    leaves_per_pod: int
    uppers_per_pod: int
    """Aggregation switches of a pod; in two tiers the spines, of the only pod."""
    cores: int


def looks_like(text: str) -> bool:
    """Return whether the text begins with the counts of nodes and tiers."""
    words = [line.split()[0].lower() for line in text[:4000].splitlines() if line.split() and line.split()[0][0] != "#"]
    return "nodes" in words[:3] and "tiers" in words[:3]


def read(text: str, draft: Draft, options: Options) -> GenerateShape | None:
    """Return the `generate` of a regular fabric, or fill the draft and return None; raises InputError."""
    head, tiers = _values(text, draft)
    sizes = _sizes(draft, head, tiers)
    draft.assumed.append("latencies are not part of a fabric file")
    regular = len(tiers) == 2 or (tiers[1].bundle == tiers[2].bundle == 1 and tiers[1][1] == tiers[2][1])
    if not regular:
        _draw(draft, tiers, sizes)
        return None
    shape = _shape(tiers, sizes)
    found = generate_problems(shape)
    if found:
        draft.refuse("", found[0].text)
    return shape


def _values(text: str, draft: Draft) -> tuple[dict[str, int], list[_Tier]]:
    """Return the counts of the head and the tiers in order."""
    head: dict[str, float] = {}
    tiers: list[dict[str, float]] = []
    places: list[str] = []
    for place, key, value in _pairs(text, draft):
        if key == "tier":
            if value != len(tiers) or len(tiers) == 3:
                draft.refuse(place, f"tier {value:g} here; tiers follow each other from 0, at most 3")
            tiers.append({})
            places.append(place)
            continue
        values, known = (tiers[-1], _TIER_KEYS) if tiers else (head, _HEAD_KEYS)
        if key not in known:
            draft.refuse(place, f"unknown key {shown(key)}; the keys here are {', '.join(sorted(known))}")
        if key in values:
            draft.refuse(place, f"{key} a second time")
        values[key] = value
    for key in _HEAD_KEYS:
        if head.get(key, 0) < 1:
            draft.refuse("", f"{key} is missing or 0")
    if not 2 <= len(tiers) <= 3 or len(tiers) != head["tiers"]:
        draft.refuse(
            "", f"{len(tiers)} tiers are described, {head['tiers']:g} are announced; two or three are supported"
        )
    return {key: int(value) for key, value in head.items()}, [
        _tier(draft, place, one, one is tiers[0], one is tiers[-1]) for place, one in zip(places, tiers, strict=True)
    ]


def _pairs(text: str, draft: Draft) -> Iterator[tuple[str, str, float]]:
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        try:
            key, value = words[0].lower(), float(words[1])
        except (IndexError, ValueError):
            draft.refuse(str(number), f"{shown(line.strip())} is not a key and a number")
        if not 0 <= value <= _LARGEST or (value != int(value) and key != "downlink_speed_gbps"):
            draft.refuse(str(number), f"{key} must be a whole number from 0 to {_LARGEST:,}, is {shown(words[1])}")
        yield str(number), key, value


def _tier(draft: Draft, place: str, values: dict[str, float], lowest: bool, top: bool) -> _Tier:
    needed = ["downlink_speed_gbps", "radix_down"] + ([] if top else ["radix_up"])
    for key in needed:
        if not values.get(key):
            draft.refuse(place, f"the tier that begins here has no {key}")
    radix_down, radix_up, bundle = (int(values.get(key, 0)) for key in ("radix_down", "radix_up", "bundle"))
    downlink_bps = round(values["downlink_speed_gbps"] * 10**9)
    check_rate(draft.source, place, downlink_bps, MAX_NIC_BPS if lowest else MAX_CABLE_BPS)
    return _Tier(place, downlink_bps, radix_down, radix_up, bundle or 1)


def _sizes(draft: Draft, head: dict[str, int], tiers: list[_Tier]) -> _Sizes:
    """Count the switches of each kind; every division must come out even, as the simulator demands."""
    nodes, pod = head["nodes"], head["podsize"]
    if nodes > MAX_NICS:
        draft.refuse("", f"{nodes:,} nodes, at most {MAX_NICS:,} NICs are allowed")
    pods = _even(draft, "", nodes, pod, "nodes", "podsize") if len(tiers) == 3 else 1
    leaves = _even(draft, tiers[0].place, nodes // pods, tiers[0].radix_down, "nodes of a pod", "radix_down of tier 0")
    ups = leaves * tiers[0].radix_up
    uppers = _even(draft, tiers[1].place, ups, tiers[1].radix_down, "leaf uplinks of a pod", "radix_down of tier 1")
    if uppers * tiers[1].bundle != tiers[0].radix_up:
        counted = f"{uppers} switches x bundle {tiers[1].bundle}"
        draft.refuse(tiers[1].place, f"{counted} is not the radix_up of tier 0, {tiers[0].radix_up}")
    if len(tiers) == 2:
        return _Sizes(1, leaves, uppers, 0)
    ups = pods * uppers * tiers[1].radix_up
    cores = _even(draft, tiers[2].place, ups, tiers[2].radix_down, "agg uplinks", "radix_down of tier 2")
    if cores * tiers[2].bundle != uppers * tiers[1].radix_up:
        counted = f"{cores} cores x bundle {tiers[2].bundle}"
        draft.refuse(tiers[2].place, f"{counted} is not a pod's {uppers * tiers[1].radix_up} uplinks")
    switches, cables = pods * (leaves + uppers) + cores, nodes + pods * leaves * tiers[0].radix_up + ups
    if switches > MAX_SWITCHES or cables > MAX_CABLES:
        draft.refuse("", f"{switches:,} switches and {cables:,} links, at most {MAX_SWITCHES:,} and {MAX_CABLES:,}")
    return _Sizes(pods, leaves, uppers, cores)


def _even(draft: Draft, place: str, whole: int, part: int, of: str, by: str) -> int:
    if whole % part or not whole:
        draft.refuse(place, f"{whole:,} {of} cannot be divided evenly by {by} ({part:,})")
    return whole // part


def _shape(tiers: list[_Tier], sizes: _Sizes) -> GenerateShape:
    three = len(tiers) == 3
    keys: dict[str, object] = {
        "kind": "clos3" if three else "spine_leaf",
        "spines": sizes.cores if three else sizes.uppers_per_pod,
        "leaves": sizes.leaves_per_pod,
        "hosts_per_leaf": tiers[0].radix_down,
        "gbps": tiers[0].downlink_bps / 10**9,
        "uplink_gbps": tiers[1].downlink_bps / 10**9,
    }
    keys |= (
        {"pods": sizes.pods, "aggs_per_pod": sizes.uppers_per_pod} if three else {"links_per_spine": tiers[1].bundle}
    )
    return GenerateShape.model_validate(keys)


def _draw(draft: Draft, tiers: list[_Tier], sizes: _Sizes) -> None:
    """Fill the draft with three tiers: agg a of a pod is linked to the a-th run of the cores."""
    leaf, agg, core = tiers
    for c in range(sizes.cores):
        draft.add_switch(f"core{c + 1}", core.place, tier=2)
    run = sizes.cores // sizes.uppers_per_pod
    for pod in range(1, sizes.pods + 1):
        for a in range(sizes.uppers_per_pod):
            draft.add_switch(f"pod{pod}-agg{a + 1}", agg.place, tier=1)
        for one in range(1, sizes.leaves_per_pod + 1):
            name = f"pod{pod}-leaf{one}"
            draft.add_switch(name, leaf.place, tier=0)
            for a in range(sizes.uppers_per_pod * agg.bundle):
                link = DraftLink(name, f"pod{pod}-agg{a // agg.bundle + 1}", agg.downlink_bps, agg.place)
                draft.add_link(link)
            for _ in range(leaf.radix_down):
                draft.add_plug(DraftPlug(f"h{len(draft.plugs) + 1}", name, leaf.downlink_bps, leaf.place, 0, (0,)))
        for a in range(sizes.uppers_per_pod):
            for c in range(run * core.bundle):
                above = f"core{a * run + c // core.bundle + 1}"
                draft.add_link(DraftLink(f"pod{pod}-agg{a + 1}", above, core.downlink_bps, core.place))
