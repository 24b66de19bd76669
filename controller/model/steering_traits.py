"""What each value of `Fabric.steered_by` means to every layer: one row each.

What the brain decides by it is a folder of `controller/brain/steering`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from heddle.controller.model.fabric import Fabric, SteeredBy


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringTraits:
    """What a steering uses, and which requests it refuses.

    With `has_sessions` switches connect to the controller, hold its rules and report their ports; otherwise telemetry
    reports them. Where it `is_probed`, probe agents find source ports and confirm the paths of running flows.
    With `in_packets` each packet names its path (`model.srv6`), so that a plan is true by construction.
    `pin_refusal`, `fixed_port_refusal` and `set_refusal` say why PIN, fixed source ports and several paths a flow are
    refused; "" where they are not.
    """

    has_sessions: bool = False
    is_probed: bool = False
    in_packets: bool = False
    pin_refusal: str = ""
    fixed_port_refusal: str = ""
    set_refusal: str = ""


TRAITS: Mapping[SteeredBy, SteeringTraits] = {
    SteeredBy.OPENFLOW: SteeringTraits(has_sessions=True),
    SteeredBy.HASH: SteeringTraits(
        is_probed=True,
        pin_refusal="PIN needs rules in switches, and this fabric hashes; use SOURCE_PORT",
        fixed_port_refusal="a fixed port has one path only where the fabric hashes; 0 lets probes find a port",
        set_refusal="probes find one port a queue pair where the fabric hashes; leave it out, and use qps_per_flow",
    ),
    SteeredBy.SRV6: SteeringTraits(
        in_packets=True,
        pin_refusal="PIN needs rules in switches, and here packets name their paths; use SOURCE_PORT",
        fixed_port_refusal="a source port selects no path where packets name theirs; 0 leaves it to the controller",
    ),
}


def traits_of(fabric: Fabric) -> SteeringTraits:
    """Return the row of a fabric's steering."""
    return TRAITS[fabric.steered_by]
