"""`heddle fabric diff` and `heddle fabric show`: compare and expand fabric files offline."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from heddle.controller.config.load import load_fabric
from heddle.controller.config.write import fabric_text
from heddle.controller.model.connectivity import cut_off
from heddle.controller.model.fabric import Fabric, SteeredBy
from heddle.controller.model.fabric_change import changes_between
from heddle.controller.views.fabric_differences import differences
from heddle.controller.views.port_room import room_line
from heddle.controller.views.rule_changes import RuleChange, rule_changes
from heddle.programs.console.fabric_lines import difference_lines, listed

SAME, HARMFUL = 0, 1


def diff(before: Path, after: Path, as_json: bool, out: TextIO) -> int:
    """Print what differs between two fabric files; return 1 where running jobs could notice it, else 0.

    Raises InputError for a file that is no fabric.
    """
    was, now = load_fabric(before), load_fabric(after)
    change = changes_between(was, now)
    steered = was.steered_by is now.steered_by is SteeredBy.OPENFLOW
    rules = rule_changes(was, now) if steered else ()
    lost = _newly_cut_off(was, now)
    harms = (*change.harms, *([f"{len(lost)} NICs reach others no more, the first is {lost[0]}"] if lost else []))
    if as_json:
        document = {
            **asdict(change),
            "roles": [[each.id, each.was.value, each.now.value] for each in change.roles],
            "moved_nics": [[each.id, str(each.was), str(each.now)] for each in change.moved_nics],
            "cut_off": lost,
            "rules": [each._asdict() for each in rules],
            "harms": harms,
            "exit_status": HARMFUL if harms else SAME,
        }
        json.dump(document, out, indent=2)
        out.write("\n")
    else:
        out.writelines(
            f"{line}\n"
            for line in (*difference_lines(differences(change)), *_rule_lines(rules, now), *_verdict(harms, was))
        )
    return HARMFUL if harms else SAME


def show(path: Path, *, expand: bool, out: TextIO) -> None:
    """Print a fabric file: its parts listed with `expand`, else how many there are; raises InputError."""
    fabric = load_fabric(path)
    if not expand:
        counts = f"{len(fabric.switches):,} switches, {len(fabric.cables):,} cables, {len(fabric.nics):,} NICs"
        out.write(f"{fabric.name}: {counts}{_room(fabric)}\n")
        return
    header = (f"every part of {path.name}, listed: parts that are added here rename none of these",)
    out.writelines(f"{line}\n" for line in fabric_text(fabric, header, numbered=True))
    down = (*sorted(fabric.failed.down_cables), *sorted(fabric.failed.down_switches))
    names = [*down, *(fabric.nic_by_id[nic].up_link for nic in sorted(fabric.failed.down_nics))]
    if names:
        out.write(f"failed: {json.dumps(names)}\n")


def _newly_cut_off(before: Fabric, after: Fabric) -> list[str]:
    """Return the NICs of both fabrics that no longer reach all others of their network."""
    known = {nic.id for nic in before.nics} - {one.nic for one in cut_off(before, before.failed)}
    return [one.nic for one in cut_off(after, after.failed) if one.nic in known]


def _rule_lines(rules: Iterable[RuleChange], after: Fabric) -> Iterator[str]:
    known = after.switch_by_id
    texts = [
        f"{one.switch}: {one.added} more, {one.removed} fewer" if one.switch in known else f"{one.switch}: gone"
        for one in rules
    ]
    yield from listed("rules change at switches", texts)


def _verdict(harms: Iterable[str], before: Fabric) -> Iterator[str]:
    found = list(harms)
    if not found:
        yield f"running jobs keep paths and ports{_room(before)}"
        return
    yield "running jobs may notice:"
    yield from (f"  {text}" for text in found)


def _room(fabric: Fabric) -> str:
    line = room_line(fabric) if fabric.steered_by is SteeredBy.OPENFLOW else ""
    return f"; {line}" if line else ""
