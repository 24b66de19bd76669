"""A diagnosis of cabling as a table for people at a rack, and as JSON."""

from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from heddle.controller.cabling.diagnosis import Diagnosis
from heddle.controller.config.text.complaint import one_line
from heddle.controller.model.fabric import Fabric
from heddle.programs.console import show as screen

MAX_CAUSES = 200
MAX_UNKNOWN = 3


def print_report(fabric: Fabric, diagnosis: Diagnosis, knows_carrier: bool) -> None:
    """Print a row for each cause, those of the most cables first, and a line of counts."""
    out = screen.console()
    if diagnosis.causes:
        table = Table(title=f"cabling of {fabric.name}", title_justify="left")
        table.add_column("cables", justify="right")
        table.add_column("kind")
        table.add_column("what is wrong", overflow="fold")
        for cause in diagnosis.causes[:MAX_CAUSES]:
            table.add_row(str(len(cause.cables) or "?"), cause.kind.value, escape(one_line(cause.text)))
        out.print(table)
    if len(diagnosis.causes) > MAX_CAUSES:
        out.print(f"  … and {len(diagnosis.causes) - MAX_CAUSES} more; --json prints all of them")
    out.print(_summary(fabric, diagnosis))
    if diagnosis.unknown:
        first = ", ".join(sorted(diagnosis.unknown)[:MAX_UNKNOWN])
        more = " …" if len(diagnosis.unknown) > MAX_UNKNOWN else ""
        out.print(f"unknown, not wrong: {_counted(len(diagnosis.unknown), 'cable')} ({first}{more})")
        if not knows_carrier:
            out.print("which ports have carrier is not known, so no cable is called missing")


def as_json(fabric: Fabric, diagnosis: Diagnosis, notes: Sequence[str]) -> dict[str, Any]:
    """Return every value by name; cables and ports in order."""
    return {
        "sound": not diagnosis.causes,
        "cables": len(fabric.cables) + len(fabric.nics),
        "causes": [
            {
                "kind": cause.kind.value,
                "text": one_line(cause.text),
                "cables": cause.cables,
                "ports": list(map(str, cause.ports)),
                "instead": list(map(str, cause.instead)),
                "nodes": list(map(one_line, cause.nodes)),
            }
            for cause in diagnosis.causes
        ],
        "wrong": sorted(diagnosis.wrong),
        "missing": sorted(diagnosis.missing),
        "unknown": sorted(diagnosis.unknown),
        "moves": diagnosis.moves,
        "notes": notes,
    }


def _summary(fabric: Fabric, diagnosis: Diagnosis) -> str:
    cables = len(fabric.cables) + len(fabric.nics)
    wrong, missing, unknown = map(len, (diagnosis.wrong, diagnosis.missing, diagnosis.unknown))
    if not diagnosis.causes:
        return f"{fabric.name}: sound: {cables - unknown:,} of {cables:,} cables are where they belong"
    counts = f"{wrong:,} wrong, {missing:,} missing, {unknown:,} unknown of {cables:,} cables"
    causes, moves = _counted(len(diagnosis.causes), "cause"), _counted(diagnosis.moves, "plug")
    return f"{counts}; {causes}; plug by plug, {moves} to move"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
