"""Write a switch's static SIDs as NVUE commands of NVIDIA Cumulus Linux: a locator and a static SID for each entry.

The lengths are those that Cumulus Linux 5.14.0 accepts for uN and uA: a block of 32 bits, a node of 16, no function. A
locator's prefix then is as long as an entry's (48 bits), so each entry has a locator of its own.
"""

from collections.abc import Iterator

from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.srv6 import BLOCK_BITS, USID_BITS, Action, Entry, Sids, prefix_text
from heddle.controller.model.srv6_settings import LastHop, Style

MAX_LOCATORS = 256
"""Of a switch, by the user guide of Cumulus Linux 5.14."""
_ROOT = "nv set router segment-routing"
_LENGTHS = {"block": BLOCK_BITS, "node": USID_BITS, "func": 0}
_BEHAVIORS = {Action.NODE: "uN", Action.ADJACENCY: "uA"}


def nvue_commands(fabric: Fabric, sids: Sids, switch: str) -> tuple[str, ...]:
    """Return the commands of a switch, in the order in which to enter them; `nv config apply` is left to the operator.

    Port n is swpN, the name of a port that is not broken out. Raises InputError for settings whose entries are no uN
    and uA, and for more entries than a switch has locators.
    """
    if fabric.srv6.style is not Style.UA or fabric.srv6.last_hop is not LastHop.UA:
        raise InputError(
            "srv6: NVUE's static SIDs are uN and uA, and a uA at NICs' ports shifts their uSID away: "
            "export a fabric with `style: ua` and `last_hop: ua`"
        )
    entries = sids.entries(switch)
    if len(entries) > MAX_LOCATORS:
        raise InputError(
            f"{switch}: {len(entries)} uSIDs need as many locators; Cumulus Linux has {MAX_LOCATORS} a switch: "
            f"use at most {MAX_LOCATORS - 1} ports of it"
        )
    commands = [each for entry in entries for each in _of_entry(entry, prefix_text(sids.prefix(entry.usid, switch)))]
    return (f"{_ROOT} srv6 state enabled", *commands)


def _of_entry(entry: Entry, prefix: str) -> Iterator[str]:
    """Yield the locator and the static SID of an entry, both with its prefix."""
    port = f"swp{entry.port.number}" if entry.port is not None else None
    name = f"HEDDLE-{port}" if port else "HEDDLE"
    locator, sid = f"{_ROOT} srv6 locator {name}", f"{_ROOT} static srv6-sid {prefix}"
    yield f"{locator} prefix {prefix}"
    yield from (f"{locator} {part}-length {bits}" for part, bits in _LENGTHS.items())
    yield f"{sid} locator-name {name}"
    yield f"{sid} behavior {_BEHAVIORS[entry.action]}"
    if port:
        yield f"{sid} interface {port}"
