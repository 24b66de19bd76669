"""The queue pairs of a lab's NICs as `ReportFlows` messages, one per host."""

from collections.abc import Collection, Mapping
from typing import Any

from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.nic.spray.paths import ACTIVE
from heddle.v1 import heddle_pb2 as pb


def observed_flows(
    fabric: Fabric, listings: Mapping[str, Mapping[str, Any]], only: Collection[int] | None = None
) -> dict[str, pb.ObservedFlows]:
    """Return the message of each host; `listings` are its NICs' replies to `queue_pairs`, by NIC id.

    With `only`, queue pairs of other numbers are left out; no two of a lab have the same. `sent_bytes` counts whole
    Ethernet frames, retransmissions included, as a plan's rates do.
    """
    found: dict[str, pb.ObservedFlows] = {}
    for nic in fabric.nics:
        message = found.setdefault(nic.host, pb.ObservedFlows(host=nic.host))
        listing = listings[nic.id]
        message.flows.extend(
            pb.ObservedFlow(
                src_ip=listing["ip"],
                dst_ip=entry["peer_ip"],
                udp_source_port=entry["udp_source_port"],
                src_qpn=entry["qpn"],
                dst_qpn=entry["peer_qpn"],
                sent_bytes=entry["sent_bytes"],
                timestamp_unix_ns=listing["timestamp_unix_ns"],
                path_errors=entry.get("path_errors", 0),
                left_sid=entry.get("left_sid", ""),
                paths=[
                    pb.ObservedPath(sid=path["sid"], denied=path["state"] != ACTIVE)
                    for path in entry.get("paths", ())
                    if path["sid"]
                ],
            )
            for entry in listing["queue_pairs"]
            if only is None or entry["qpn"] in only
        )
    return found
