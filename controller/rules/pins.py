"""Where a pinned flow needs a rule: at every switch on its path that has a choice."""

from collections.abc import Iterable
from typing import NamedTuple

from controller.model.fabric import Cable, Fabric
from controller.model.rule import ETH_IPV4, IP_UDP, Action, Cookie, CookieKind, FlowRule, Masked, Match, Pin
from controller.rules.pipeline import PIN_PAIR_PRIORITY, PIN_PRIORITY, Table

EXACT_ADDRESS = 0xFFFFFFFF
EXACT_PORT = 0xFFFF


class PinPoint(NamedTuple):
    """A pin at one switch of its path, with the cable that it takes there."""

    pin: Pin
    cable: Cable
    upwards: bool


def pin_points(fabric: Fabric, pins: Iterable[Pin]) -> dict[str, list[PinPoint]]:
    """Return, per switch, the pins that leave it by a cable to another switch."""
    found: dict[str, list[PinPoint]] = {}
    for pin in pins:
        for link in pin.links:
            cable = fabric.cable_by_link.get(link)
            if cable is not None:
                upwards = link == cable.up_link
                switch = cable.lower.switch if upwards else cable.upper.switch
                found.setdefault(switch, []).append(PinPoint(pin, cable, upwards))
    return found


def pin_rule(pin: Pin, action: Action) -> FlowRule:
    """Return the rule that sends a pinned flow (or every flow of its pair) on."""
    port = pin.udp_source_port
    return FlowRule(
        table=Table.PINS,
        priority=PIN_PAIR_PRIORITY if port is None else PIN_PRIORITY,
        match=Match(
            eth_type=ETH_IPV4,
            ip_proto=None if port is None else IP_UDP,
            ipv4_src=Masked(pin.src_ip, EXACT_ADDRESS),
            ipv4_dst=Masked(pin.dst_ip, EXACT_ADDRESS),
            udp_src=None if port is None else Masked(port, EXACT_PORT),
        ),
        actions=(action,),
        cookie=Cookie(CookieKind.PIN, pin.job_number, pin.generation).pack(),
    )
