"""The program `heddle check fabric`: probe, conclude, print."""

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from heddle.controller.config.load import load_fabric
from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.controller.probe_sessions.pairs import pairs_of
from heddle.foundation.traffic_class import DATA
from heddle.probing.check.conclusions import LeafCheck, concluded
from heddle.probing.check.places import Places
from heddle.probing.check.questions import Pair, Round, rounds
from heddle.probing.check.sending import send_all
from heddle.probing.prober import Prober
from heddle.programs.console.fabric_check.inputs import (
    ADDRESSES_FILE,
    FABRIC_FILE,
    NODES_FILE,
    Source,
    entered,
    places_of,
    sources_of,
)  # fmt: skip
from heddle.programs.console.fabric_check.report import as_json as document
from heddle.programs.console.fabric_check.report import lines


def run_check_fabric(
    path: Path, nics: Sequence[str], addresses: Path | None, rate_pps: int, as_json: bool, out: TextIO
) -> int:
    """Check the leaves of this machine's NICs, print the conclusions, and return 0 if all are fit, else 1."""
    lab = path if path.is_dir() else None
    fabric = load_fabric(lab / FABRIC_FILE if lab else path)
    places = places_of(fabric, addresses or (lab / ADDRESSES_FILE if lab else None))
    sources = sources_of(fabric, nics, lab / NODES_FILE if lab else None)
    pairs = pairs_of(fabric, [source.nic for source in sources])
    if not pairs:
        raise InputError("no other leaf has a NIC that can be reached: a check probes between leaves")
    checks = checked(pairs, sources, places, rate_pps)
    if as_json:
        json.dump(document(checks), out, indent=2)
        out.write("\n")
    else:
        out.writelines(f"{line}\n" for line in lines(checks))
    return int(not all(check.is_fit for check in checks))


def checked(
    pairs: Sequence[Pair], sources: Sequence[Source], places: Places, rate_pps: int
) -> tuple[LeafCheck, ...]:  # fmt: skip
    """Probe between the pairs and return the conclusions; raises PrerequisiteError without CAP_NET_RAW."""
    sent, probing = rounds(pairs, DATA.dscp), {pair.src_ip for pair in pairs}
    with ExitStack() as stack:
        probers = {}
        for source in sources:
            if source.nic.ip in probing:
                with entered(source.pid):
                    probers[source.nic.ip] = stack.enter_context(_prober(source, rate_pps))
        return concluded(pairs, sent, send_all(sent, probers, _progress), places)


def _prober(source: Source, rate_pps: int) -> Prober:
    try:
        return Prober(source.nic.ip, source.device, rate_pps=rate_pps)
    except PermissionError:
        raise PrerequisiteError("probes take raw sockets (CAP_NET_RAW): run this as root") from None


def _progress(each: Round) -> None:
    if sys.stderr.isatty():
        count = sum(map(len, each.questions.values()))
        print(f"heddle: {count:,} probes from {len(each.questions)} NICs ({each.variation.value})", file=sys.stderr)
