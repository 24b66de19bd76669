"""Compare how a switch chooses among equal paths with what a plan assumes: by a hash of the five-tuple alone."""

from collections.abc import Iterator, Mapping

from heddle.controller.sonic.config_db import ConfigDb, Place
from heddle.controller.sonic.export import HASH_FIELDS
from heddle.controller.sonic.wording import Difference, Effect

SWITCH_HASH = "SWITCH_HASH"
_ECMP_HASHES = ("ecmp_hash", "ecmp_hash_ipv4", "ecmp_hash_ipv4_rdma")
_LAG_HASHES = ("lag_hash", "lag_hash_ipv4", "lag_hash_ipv4_rdma")
_SAME_FOR_A_PAIR = ("DST_MAC", "SRC_MAC", "ETHERTYPE", "VLAN_ID")
"""Fields that all packets between two NICs share, probes too: they move no flow off its probed path."""
_INNER = "INNER_"
"""Fields of a packet in a tunnel, which RoCE packets of planned flows are not in."""
_ADAPTIVE = ("ARS_PROFILE", "ARS_OBJECT")
_SEEDS = (
    (("ToRRouter", "EPMS", "MgmtTsToR"), 0),
    (("LeafRouter",), 10),
    (("SpineRouter",), 25),
    (("LowerRegionalHub",), 60),
    (("FabricRegionalHub",), 70),
    (("UpperRegionalHub",), 80),
)
"""The hash seed by a part of DEVICE_METADATA's type, the first that fits (dockers/docker-orchagent/switch.json.j2)."""
_SWITCHES = ("Router", "Hub", "ToR")
"""Parts of the types of neighbours that are switches, not servers."""


def path_differences(config: ConfigDb) -> Iterator[Difference]:
    """Yield what makes a switch choose paths by other than the five-tuple."""
    for field in _ECMP_HASHES:
        place = Place(SWITCH_HASH, "GLOBAL", field)
        if config.value(place) or field == "ecmp_hash":
            yield from _fields(place, config.value(place), "the source port selects the path: without ports all flows")
    yield from _algorithm(config, "ecmp")
    if config.tables.get("PORTCHANNEL_MEMBER"):
        for field in _LAG_HASHES:
            place = Place(SWITCH_HASH, "GLOBAL", field)
            if config.value(place):
                yield from _fields(place, config.value(place), "members of a port channel are paths: without ports all")
        yield from _algorithm(config, "lag")
    for table in _ADAPTIVE:
        for key in config.tables.get(table, {}):
            reason = "a switch that chooses by load moves flows off their planned paths"
            yield Difference(Place(table, key), key, "no adaptive routing", reason)
    for key in config.tables.get("PBH_RULE", {}):
        reason = "packets that fit this rule are hashed by fields of its own, which are not compared"
        yield Difference(Place("PBH_RULE", key), "a rule", "", reason, effect=Effect.NOTE)


def _fields(place: Place, text: str, why_ports: str) -> Iterator[Difference]:
    fields = set(filter(None, text.split(",")))
    wanted = ",".join(HASH_FIELDS)
    missing = [field for field in HASH_FIELDS if field not in fields]
    if missing:
        reason = f"{why_ports} of a pair take one; missing: {', '.join(missing)}"
        yield Difference(place, text, wanted, reason)
    harmless = {field for field in fields if field in _SAME_FOR_A_PAIR or field.startswith(_INNER)}
    extra = sorted(fields - set(HASH_FIELDS) - harmless)
    if extra:
        reason = "packets of one flow with the same five-tuple may take other paths than probed"
        yield Difference(place, text, wanted, f"{reason}; too many: {', '.join(extra)}")


def _algorithm(config: ConfigDb, kind: str) -> Iterator[Difference]:
    place = Place(SWITCH_HASH, "GLOBAL", f"{kind}_hash_algorithm")
    if config.value(place) == "RANDOM":
        reason = "each packet may take another path, whatever its source port"
        yield Difference(place, "RANDOM", "an algorithm without chance, such as CRC", reason)


def hash_seed(config: ConfigDb) -> int | None:
    """Return the seed that SONiC gives to the switch's hash; None if the file does not say what the switch is."""
    if not config.has("DEVICE_METADATA", "localhost"):
        return None
    own = config.number(Place("DEVICE_METADATA", "localhost", "ecmp_hash_seed"))
    offset = config.number(Place("DEVICE_METADATA", "localhost", "namespace_id")) or 0
    return (_seed_of_type(config.metadata("type")) if own is None else own) + offset


def _seed_of_type(kind: str) -> int:
    return next((seed for parts, seed in _SEEDS if any(part in kind for part in parts)), 0)


def shared_seeds(configs: Mapping[str, ConfigDb]) -> Iterator[str]:
    """Yield a sentence for each hash seed that switches of two tiers share, `configs` by the name of their file.

    Neighbours are of two tiers: DEVICE_NEIGHBOR names them, DEVICE_NEIGHBOR_METADATA also gives the type of those that
    have no file here. Without neighbours the tiers are unknown: one seed in all files is worth a sentence, two are not.
    """
    seeds = {name: seed for name, config in configs.items() if (seed := hash_seed(config)) is not None}
    hosts = {configs[name].metadata("hostname"): name for name in seeds}
    linked: dict[str, set[str]] = {name: set() for name in seeds}
    for name in tuple(seeds):
        for host, kind in _neighbours(configs[name]):
            other = hosts.get(host, f"its neighbour {host}")
            if other not in hosts.values():
                if not any(part in kind for part in _SWITCHES):
                    continue
                seeds[other] = _seed_of_type(kind)
            if other != name:
                linked[name].add(other)
                linked.setdefault(other, set()).add(name)
    certain = any(linked.values())
    for seed in sorted(set(seeds.values())):
        same = [name for name, each in seeds.items() if each == seed]
        if certain:
            same = [name for name in same if any(seeds[other] == seed for other in linked[name])]
        elif len(set(seeds.values())) > 1:
            return
        if len(same) > 1:
            yield _seed_sentence(seed, same, certain=certain)


def _neighbours(config: ConfigDb) -> Iterator[tuple[str, str]]:
    """Yield the host name and, where it is known, the type of each neighbour."""
    for row in config.tables.get("DEVICE_NEIGHBOR", {}).values():
        yield str(row.get("name")), ""
    for host, row in config.tables.get("DEVICE_NEIGHBOR_METADATA", {}).items():
        yield host, str(row.get("type"))


def _seed_sentence(seed: int, names: list[str], *, certain: bool) -> str:
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    tiers = "and are of two tiers" if certain else "and may be of two tiers"
    return (
        f"{shown} hash with one seed ({seed}, of DEVICE_METADATA type) {tiers}: then the next tier repeats the choice "
        "of the first, and source ports reach only some of the paths (steering: hash)"
    )
