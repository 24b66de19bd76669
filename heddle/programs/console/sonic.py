"""`heddle export sonic` and `heddle verify roce`: SONiC's configuration of what a plan assumes."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from heddle.controller.config.load import load_fabric
from heddle.controller.config.text.complaint import one_line, shown
from heddle.controller.config.text.document import MAX_SETTINGS_BYTES, read_text
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.srv6 import sids_of
from heddle.controller.sonic.causes import Cause, causes
from heddle.controller.sonic.config_db import ConfigDb, Tables
from heddle.controller.sonic.differences import comparison
from heddle.controller.sonic.export import PortNames, config_tables, switch_ports
from heddle.controller.sonic.models import MAX_SPEED_MBPS
from heddle.controller.sonic.packets import IN_SRV6, PLAIN
from heddle.controller.sonic.path_differences import shared_seeds
from heddle.controller.sonic.refusals import refusals
from heddle.controller.sonic.srv6 import srv6_differences, srv6_tables
from heddle.controller.sonic.wording import Difference, Effect

_ASIC = re.compile(r"(?:asic[0-9]+|localhost)\Z")
_NAMES = PortNames()
MAX_LINES = 1_000
"""A switch of 64 ports with nothing configured has about 20 causes."""


def run_export(path: Path, out: Path | None, names: PortNames, cable_metres: int) -> None:
    """Write the tables of every switch of a fabric file: `out`/SWITCH.json, or one object to standard output.

    Raises InputError for rates that no port of SONiC can have.
    """
    fabric = load_fabric(path)
    ports = switch_ports(fabric)
    name = one_line(str(path))
    problems = [
        f"{name}: port {number} of {switch}: {speed:,} Mbit/s; SONiC's ports have 1 to {MAX_SPEED_MBPS:,}"
        for switch, speeds in ports.items()
        for number, speed in speeds.items()
        if not 1 <= speed <= MAX_SPEED_MBPS
    ]
    if problems:
        raise InputError(*problems)
    tables = {
        switch: config_tables(each, names, cable_metres) | srv6_tables(fabric, switch, names)
        for switch, each in ports.items()
    }
    if out is None:
        json.dump(tables, sys.stdout, indent=2)
        print()
        return
    out.mkdir(parents=True, exist_ok=True)
    for switch, each in tables.items():
        with open(out / f"{switch}.json", "w", encoding="utf-8") as file:
            json.dump(each, file, indent=2)
            file.write("\n")
    print(f"{out}: {len(ports)} switches")


def run_verify(
    paths: Sequence[Path], as_json: bool, out: TextIO, fabric: Path | None = None, names: PortNames = _NAMES
) -> int:
    """Print what SONiC refuses, and the differences, of every config_db.json: a line for each cause, the worst first.

    With a fabric file each file's name is that of its switch, and its static SIDs are compared too. Where packets name
    their paths, switches are compared with what the outer header needs. Returns 0, 1 if there are any, 2 for malformed
    files.
    """
    problems: list[str] = []
    configs: dict[str, ConfigDb] = {}
    for path in paths:
        try:
            configs[one_line(str(path))] = read_config_db(path)
        except InputError as error:
            problems += error.problems
    described = load_fabric(fabric) if fabric is not None else None
    packets = IN_SRV6 if described is not None and sids_of(described) is not None else PLAIN
    found = {file: [*refusals(config), *comparison(config, packets)] for file, config in configs.items()}
    if described is not None:
        problems += _compare_sids(described, names, configs, found)
    notes = [] if packets.name_paths else list(shared_seeds(configs))
    status = 2 if problems else int(any(not each.is_note for these in found.values() for each in these))
    grouped = {file: causes(these, list(configs[file].tables.get("PORT", {}))) for file, these in found.items()}
    if as_json:
        files = [_file_as_json(file, these, grouped[file]) for file, these in found.items()]
        document = {"files": files, "notes": notes, "problems": problems, "exit_status": status}
        json.dump(document, out, indent=2)
        out.write("\n")
        return status
    for file, these in grouped.items():
        if all(each.effect is Effect.NOTE and not each.refused for each in these):
            out.write(f"{file}: as the plan assumes\n")
        out.writelines(one_line(f"{file}: {each.line}") + "\n" for each in these[:MAX_LINES])
        if len(these) > MAX_LINES:
            out.write(f"{file}: (+{len(these) - MAX_LINES} more; --json prints all)\n")
    out.writelines(one_line(f"note: {note}") + "\n" for note in notes)
    for problem in problems:
        print(f"heddle: {problem}", file=sys.stderr)
    return status


def _compare_sids(
    fabric: Fabric, names: PortNames, configs: Mapping[str, ConfigDb], found: Mapping[str, list[Difference]]
) -> list[str]:
    """Add the differences of static SIDs; return a line for each file that is not named by a switch."""
    problems = []
    for file, config in configs.items():
        switch = Path(file).stem
        if switch in fabric.switch_by_id:
            found[file].extend(srv6_differences(config, srv6_tables(fabric, switch, names)))
        else:
            problems.append(f"{file}: {switch} is no switch of the fabric file: name it SWITCH.json")
    return problems


def read_config_db(path: Path) -> ConfigDb:
    """Read a config_db.json; raises InputError for what is no object of tables of rows, or has no port."""
    name = one_line(str(path))
    try:
        value = json.loads(
            read_text(path, MAX_SETTINGS_BYTES), object_pairs_hook=_unique, parse_int=str, parse_float=str
        )
    except RecursionError:
        raise InputError(f"{name}: nested too deep") from None
    except ValueError as error:
        raise InputError(one_line(f"{name}: no JSON: {error}")) from None
    config = ConfigDb(_tables(value, name))
    if not config.ports():
        raise InputError(f"{name}: PORT: no port of the fabric is up; name a whole config_db.json of a switch")
    return config


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {shown(next(key for key in keys if keys.count(key) > 1))} twice in one object")
    return found


def _tables(value: object, name: str) -> Tables:
    if not isinstance(value, dict):
        raise InputError(f"{name}: must be an object of tables, is {shown(value)}")
    if dumped := next((table for table in value if "|" in table), None):
        raise InputError(
            f"{name}: {one_line(dumped)}: a row at the top, as in a dump of Redis; "
            "`sonic-cfggen -d --print-data` writes the tables"
        )
    if asics := [table for table in value if _ASIC.match(table) and isinstance(value[table], dict)]:
        raise InputError(f"{name}: {', '.join(asics[:4])}: tables of several ASICs; name a file for each of them")
    for table, rows in value.items():
        if not isinstance(rows, dict):
            raise InputError(f"{name}: {one_line(table)}: must be an object of rows, is {shown(rows)}")
        for key, row in rows.items():
            if not isinstance(row, dict):
                raise InputError(f"{name}: {one_line(f'{table}|{key}')}: must be an object of fields, is {shown(row)}")
    return value


def _file_as_json(file: str, these: Sequence[Difference], grouped: Sequence[Cause]) -> dict[str, object]:
    return {
        "file": file,
        "differences": [_as_json(each) for each in these if not each.is_note],
        "notes": [_as_json(each) for each in these if each.is_note],
        "causes": [
            {
                "line": each.line,
                "effect": each.effect.name.lower(),
                "refused": each.refused,
                "ports": each.ports,
                "places": [str(difference.place) for difference in each.differences],
            }
            for each in grouped
        ],
    }


def _as_json(each: Difference) -> dict[str, object]:
    return {
        **each.place._asdict(),
        "found": each.found,
        "assumed": each.wanted,
        "reason": each.reason,
        "refused": each.refused,
        "effect": each.effect.name.lower(),
        "ports": each.ports,
    }
