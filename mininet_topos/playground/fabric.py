"""The fabric of a lab to play with: the built-in example, or a fabric file at rates that this machine carries."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from heddle.controller.config import load_fabric, parse_fabric
from heddle.controller.config.text.document import read_text
from heddle.controller.config.write import fabric_text
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.demo.options import check_load, check_reach
from heddle.mininet_topos.traffic.workloads import compute_nics

EXAMPLE = """\
version: 1
name: playground
generate: {kind: spine_leaf, spines: 2, leaves: 4, hosts_per_leaf: 2, gbps: 0.02}
"""
IN_PLANES = """\
version: 1
name: playground
generate: {{kind: spine_leaf, spines: 2, leaves: 4, hosts_per_leaf: 2, gbps: {gbps:g}, planes: {planes}}}
"""
NIC_GBPS = 0.02
MAX_PLANES = 8
LAB_RATES_BPS = (20_000_000, 16_000_000, 12_000_000, 8_000_000, 4_000_000)
"""The rates of the fastest NIC of a fabric that is scaled down; the first that software switches carry is used."""


class LabFabric(NamedTuple):
    """A fabric, the text of its file for the controller, and by which factor its rates were divided (1: as given)."""

    fabric: Fabric
    text: str
    scale: float = 1.0


def lab_fabric(path: Path | None, planes: int = 1) -> LabFabric:
    """Return the built-in fabric, or that of a file, scaled down if needed; raises a HeddleError.

    The built-in one has so many planes, among whose ports the rate of a NIC is divided.
    """
    if not 1 <= planes <= MAX_PLANES:
        raise InputError(f"--planes {planes}: must be 1 to {MAX_PLANES}")
    if path is None:
        text = EXAMPLE if planes == 1 else IN_PLANES.format(gbps=NIC_GBPS / planes, planes=planes)
        return LabFabric(parse_fabric(text, "the built-in fabric"), text)
    if planes > 1:
        raise InputError(f"--planes {planes} is of the built-in fabric: write `planes: {planes}` into {path}")
    fabric = load_fabric(path)
    if len({nic.host for nic in compute_nics(fabric)}) < 2:
        raise InputError(f"{path}: a lab needs NICs of the compute network on at least 2 hosts")
    check_reach(fabric)
    try:
        check_load(fabric, ())
        return LabFabric(fabric, read_text(path))
    except InputError:
        return _scaled(fabric)


def _scaled(fabric: Fabric) -> LabFabric:
    """Divide all rates by one number, so that software switches carry the fabric; raises InputError if none fits."""
    fastest_bps = max(nic.capacity_bps for nic in fabric.nics)
    for rate_bps in LAB_RATES_BPS:
        scale = fastest_bps / rate_bps
        slow = replace(
            fabric,
            cables=tuple(replace(one, capacity_bps=round(one.capacity_bps / scale)) for one in fabric.cables),
            nics=tuple(replace(one, capacity_bps=round(one.capacity_bps / scale)) for one in fabric.nics),
        )
        try:
            check_load(slow, ())
        except InputError as fault:
            problem = fault
            continue
        text = "\n".join(fabric_text(slow)) + "\n"
        return LabFabric(parse_fabric(text, "the scaled fabric"), text, scale)
    raise problem
