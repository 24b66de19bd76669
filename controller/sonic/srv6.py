"""Write and compare SONiC's static SIDs of a fabric whose packets name their paths: SRV6_MY_LOCATORS, SRV6_MY_SIDS."""

from collections.abc import Iterator
from ipaddress import IPv6Network

from heddle.controller.model.address import ipv6_text
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.srv6 import BLOCK_BITS, USID_BITS, Action, prefix_text, sids_of
from heddle.controller.model.srv6_settings import LastHop, Style
from heddle.controller.sonic.config_db import ConfigDb, Place
from heddle.controller.sonic.export import MAP_NAME, PortNames, Row, Tables
from heddle.controller.sonic.wording import Difference, Effect

LOCATORS, SIDS = "SRV6_MY_LOCATORS", "SRV6_MY_SIDS"
_LENGTHS = {"block_len": BLOCK_BITS, "node_len": USID_BITS, "func_len": USID_BITS, "arg_len": 0}
"""With SONiC's own defaults: an absent field has them."""
_ACTIONS = {Action.NODE: "uN", Action.ADJACENCY: "uA"}


def srv6_tables(fabric: Fabric, switch: str, names: PortNames) -> Tables:
    """Return the static SIDs of a switch; no table with another steering, or where NICs have plain routes.

    Raises InputError for settings that SONiC's tables of SIDs do not hold.
    """
    sids = sids_of(fabric)
    if sids is None:
        return {}
    if fabric.srv6.style is not Style.UA or fabric.srv6.last_hop is not LastHop.UA:
        raise InputError(
            "srv6: SONiC's tables of static SIDs hold uN and uA, and a uA at NICs' ports shifts their uSID away: "
            "export a fabric with `style: ua` and `last_hop: ua`"
        )
    block, node, function = _LENGTHS["block_len"], _LENGTHS["node_len"], _LENGTHS["func_len"]
    locator: Row = {
        "prefix": ipv6_text(sids.locator(switch)),
        "block_len": str(block),
        "node_len": str(node),
        "func_len": str(function),
    }
    rows: dict[str, Row] = {}
    for entry in sids.entries(switch):
        row: Row = {"action": _ACTIONS[entry.action], "decap_dscp_mode": "pipe"}
        if entry.port is not None:
            row["interface"] = names.interface(entry.port.number)
        rows[f"{MAP_NAME}|{prefix_text(sids.prefix(entry.usid, switch))}"] = row
    return {LOCATORS: {MAP_NAME: locator}, SIDS: rows}


def srv6_differences(config: ConfigDb, wanted: Tables) -> Iterator[Difference]:
    """Yield what a switch's SIDs have otherwise than `wanted`, which is what `srv6_tables` returns for it."""
    if SIDS not in wanted:
        return
    yield from _locators(config, str(wanted[LOCATORS][MAP_NAME]["prefix"]))
    found = {_prefix(key): key for key in config.tables.get(SIDS, {})}
    block = IPv6Network((wanted[LOCATORS][MAP_NAME]["prefix"], BLOCK_BITS), strict=False)
    for key, row in wanted[SIDS].items():
        prefix = _prefix(key)
        held = found.pop(prefix, None)
        if held is None:
            reason = "packets whose next uSID it is are dropped"
            yield Difference(Place(SIDS, key), "", _worded(row), reason, effect=Effect.DROPS)
            continue
        for field in ("action", "interface"):
            place = Place(SIDS, held, field)
            if field in row and config.value(place) != row[field]:
                reason = "packets with this uSID leave their planned path"
                yield Difference(place, config.value(place), str(row[field]), reason, effect=Effect.DROPS)
    for prefix, key in found.items():
        if prefix is not None and prefix.subnet_of(block):
            reason = "the fabric file has nothing of this uSID in its block"
            yield Difference(Place(SIDS, key), key, "no such row", reason)


def _locators(config: ConfigDb, prefix: str) -> Iterator[Difference]:
    """Yield the locator of the switch where it is missing or divided otherwise."""
    for name in config.tables.get(LOCATORS, {}):
        if _prefix(f"|{config.value(Place(LOCATORS, name, 'prefix'))}/48") != IPv6Network(f"{prefix}/48"):
            continue
        for field, length in _LENGTHS.items():
            place = Place(LOCATORS, name, field)
            if config.value(place) not in ("", str(length)):
                reason = "uSIDs are read at other bits than the plan's addresses have them"
                yield Difference(place, config.value(place), str(length), reason, effect=Effect.DROPS)
        return
    yield Difference(
        Place(LOCATORS), "", f"a row with prefix {prefix}", "its SIDs have no locator", effect=Effect.DROPS
    )


def _prefix(key: str) -> IPv6Network | None:
    """Return the prefix of a row `locator|prefix`, None for no prefix."""
    try:
        return IPv6Network(key.rpartition("|")[2], strict=False)
    except ValueError:
        return None


def _worded(row: Row) -> str:
    return f"{row['action']} by {row['interface']}" if "interface" in row else str(row["action"])
