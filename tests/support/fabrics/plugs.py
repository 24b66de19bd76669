"""Exchange plugs in a lab: the interfaces of two switch ports change places, and their cables with them."""

import time

from heddle.controller.model.fabric import PortRef
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.switches.fabric_net import ip_batch
from heddle.mininet_topos.wire.shaping import shape_switch_ports


def exchange_plugs(lab: Lab, a: PortRef, b: PortRef) -> float:
    """Exchange the plugs of two ports; return when they had carrier again (time.monotonic)."""
    net = lab.net
    first, second = net.interface_of[a], net.interface_of[b]
    ip_batch([f"link set dev {name} down" for name in (first, second)])
    words = ["del-port", net.bridge_of[a.switch], first, "--", "del-port", net.bridge_of[b.switch], second]
    for port, name in ((a, second), (b, first)):
        words += ["--", "add-port", net.bridge_of[port.switch], name]
        words += ["--", "set", "interface", name, f"ofport_request={port.number}"]
    lab.ovs.vsctl(*words)
    net.interface_of[a], net.interface_of[b] = second, first
    ip_batch([f"link set dev {name} up" for name in (first, second)])
    carrier_s = time.monotonic()
    shape_switch_ports(each for each in net.egresses() if each.interface in (first, second))  # their queues are gone
    return carrier_s
