"""Dissect frames by tshark."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from scapy.packet import Raw
from scapy.utils import wrpcap

CHECKED = ("ip.check_checksum", "udp.check_checksum", "tcp.check_checksum", "ip.defragment:FALSE")
FAULTS = (
    "_ws.malformed or ip.checksum.status==0 or udp.checksum.status==0 or tcp.checksum.status==0 "
    "or icmp.checksum.status==0 or icmpv6.checksum.status==0 "
    "or (_ws.expert.severity>=0x600000 and not icmp.resp_not_found and not icmpv6.resp_not_found "
    "and not tcp.connection.rst and not tcp.analysis.flags)"
)
"""Wireshark's own findings, warnings and worse; but not that a ping has no reply in the file, a reset, or the order
of segments."""


def wireshark_faults(frames: Sequence[bytes], folder: Path) -> str:
    """Return a line for each frame with an expert finding of Wireshark."""
    file = folder / "left.pcap"
    wrpcap(str(file), [Raw(frame) for frame in frames], linktype=1)
    options = [word for name in CHECKED for word in ("-o", name if ":" in name else f"{name}:TRUE")]
    fields = [word for name in ("frame.number", "_ws.col.Protocol", "_ws.expert.message") for word in ("-e", name)]
    plain = [word for name in ("dns", "ntp") for word in ("--disable-protocol", name)]  # the payload is arbitrary
    command = ["tshark", "-n", "-r", str(file), *plain, *options, "-Y", FAULTS, "-T", "fields", *fields]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert not done.returncode, done.stderr
    return done.stdout
