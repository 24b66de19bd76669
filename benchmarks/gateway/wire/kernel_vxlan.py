"""Linux's own VXLAN in the same place: a bridge with `in` and a VXLAN device, all addresses set beforehand.

What it does it does in soft interrupts, while the generator sends: it is measured by what the generator's core needs.
"""

from benchmarks.gateway.wire.course import EGRESS, EGRESS_IP, INGRESS, SINK_IP, SINK_MAC, Course

VNI = 5
BRIDGE, TUNNEL = "inner", "tunnel"


def set_up(course: Course) -> None:
    """Let the kernel encapsulate what is for the sink's MAC; raises RuntimeError where it has no such devices."""
    run = course.device.run
    run("ip", "link", "add", BRIDGE, "type", "bridge", "mcast_snooping", "0")
    run("ip", "link", "add", TUNNEL, "type", "vxlan", "id", str(VNI), "dev", EGRESS, "local", EGRESS_IP,
        "remote", SINK_IP, "dstport", "4789", "nolearning", "noudpcsum")  # fmt: skip
    run("ip", "link", "set", TUNNEL, "mtu", str(course.mtu_bytes))
    for name in (INGRESS, TUNNEL):
        run("ip", "link", "set", name, "master", BRIDGE)
        run("ip", "link", "set", name, "up")
    run("ip", "link", "set", BRIDGE, "up")
    run("bridge", "fdb", "add", SINK_MAC, "dev", TUNNEL, "master", "static")
