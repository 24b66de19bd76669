"""`heddle import FILE`: convert another format to a fabric file."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from heddle.controller.config.foreign import FORMATS, Hint, Imported, Options, import_fabric
from heddle.controller.config.text.complaint import one_line
from heddle.controller.config.write import fabric_document, fabric_text
from heddle.controller.model.connectivity import cut_off
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Role
from heddle.controller.model.limit import MAX_CABLE_BPS, MAX_NIC_BPS
from heddle.library.fabrics import ROLES, bits_per_second
from heddle.programs.console import show


def options_of(
    gbps: float,
    uplink_gbps: float | None,
    aggs_per_pod: int,
    cores: int | None,
    format_name: str | None,
    roles: Sequence[str] = (),
) -> Options:
    """Return the checked options of the command line; raises InputError."""
    if format_name is not None and format_name not in FORMATS:
        raise InputError(f"--format {one_line(format_name)}: must be one of {', '.join(FORMATS)}")
    nic_bps = bits_per_second("--gbps", gbps, MAX_NIC_BPS)
    uplink_bps = None if uplink_gbps is None else bits_per_second("--uplink-gbps", uplink_gbps, MAX_CABLE_BPS)
    return Options(nic_bps, uplink_bps, aggs_per_pod, cores, _roles(roles))


def _roles(texts: Sequence[str]) -> dict[str, Hint]:
    """Return the role of each node that `--role NODE=ROLE` names."""
    found: dict[str, Hint] = {}
    for text in texts:
        node, _, role = text.rpartition("=")
        if not node or role not in ROLES:
            raise InputError(f"--role {one_line(text)}: must be NODE=ROLE, a role of {', '.join(ROLES)}")
        if found.setdefault(node, Hint(role)) != role:
            raise InputError(f"--role {one_line(text)}: {one_line(node)} has the role {found[node]} already")
    return found


def run_import(path: Path, options: Options, *, format_name: str | None, output: Path | None, as_json: bool) -> None:
    """Import a file and write the fabric; omissions go to standard error. Raises HeddleError."""
    with show.progress(f"importing {path}"):
        found = import_fabric(path, options, format_name)
    with _opened(output) as out:
        if as_json:
            json.dump(fabric_document(found.fabric, found.generate), out)
            out.write("\n")
        else:
            out.writelines(line + "\n" for line in fabric_text(found.fabric, _header(path, found), found.generate))
    for line in _notes(path, found):
        print(line, file=sys.stderr)


def _header(path: Path, found: Imported) -> Iterator[str]:
    yield f"Imported by heddle import from {path.name} ({found.format}): {_counts(found)}."
    yield from (f"Assumed: {line}." for line in found.assumed)
    yield from (f"{line[0].upper()}{line[1:]}." for line in found.left_out)


def _counts(found: Imported) -> str:
    roles = [switch.role for switch in found.fabric.switches]
    by_role = ", ".join(f"{roles.count(role):,} {role}" for role in Role if role in roles)
    hosts = len({nic.host for nic in found.fabric.nics})
    links = f"{len(found.fabric.cables):,} links between switches"
    return f"{hosts:,} hosts, {len(found.fabric.ports_of):,} NICs, {len(roles):,} switches ({by_role}), {links}"


def _notes(path: Path, found: Imported) -> Iterator[str]:
    """Yield lines for the result, for omissions, and for NICs that are cut off."""
    yield f"heddle: {path}: {found.format}: {_counts(found)}"
    yield from (f"heddle: {line}" for line in found.left_out)
    apart = cut_off(found.fabric, found.fabric.failed)
    if apart:
        first = f"NIC {apart[0].nic} does not reach all others, {apart[0].why}"
        what = "in other planes than" if apart[0].other_plane else "cut off from"
        yield f"heddle: {path}: {len(apart):,} NIC(s) are {what} the rest: {first}"


@contextmanager
def _opened(output: Path | None) -> Iterator[TextIO]:
    if output is None:
        yield sys.stdout
        return
    with open(output, "w", encoding="utf-8") as file:
        yield file
