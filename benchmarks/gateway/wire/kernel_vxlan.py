"""Linux kernel VXLAN as device under test: a bridge with `in` and a VXLAN device, with static addresses.

The kernel forwards in soft interrupts while the generator sends, so its cost is CPU time of the generator's core.
"""

from heddle.benchmarks.gateway.wire.course import EGRESS, EGRESS_IP, INGRESS, SINK_IP, SINK_MAC, Course

VNI = 5
BRIDGE, TUNNEL = "inner", "tunnel"


def set_up(course: Course) -> None:
    """Configure encapsulation of frames to the sink's MAC; raises RuntimeError if the kernel lacks VXLAN."""
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
