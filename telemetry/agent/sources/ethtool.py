"""Read the counters of a host's NICs: the driver's by the ethtool ioctl, the RDMA device's from /sys.

    ethtool -S DEVICE                                          SIOCETHTOOL, ETHTOOL_GSTRINGS and ETHTOOL_GSTATS
    /sys/class/infiniband/DEVICE/ports/PORT/hw_counters/NAME   one number per file
    /sys/class/net/DEVICE/statistics/NAME                      for drivers without more
    /sys/class/net/DEVICE/speed, carrier_down_count            the link's rate in Mbit/s, how often it has been down

As with `ethtool -S` itself, the ioctl needs no privilege. Names are mlx5's (see `telemetry.agent.nic_counters`).
"""

import array
import errno
import fcntl
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from heddle.telemetry.agent.nic_counters import nic_sample
from heddle.telemetry.agent.restart import Restarts
from heddle.telemetry.agent.source import DeviceSamples, SourceError
from heddle.telemetry.samples.sample import PortSample
from heddle.telemetry.samples.topic import Source

SIOCETHTOOL = 0x8946
ETHTOOL_GSTRINGS, ETHTOOL_GSTATS, ETHTOOL_GSSET_INFO = 0x1B, 0x1D, 0x37
ETH_SS_STATS = 1
ETH_GSTRING_LEN = 32
MAX_STATS = 65_536
SPARE_STATS = 4_096  # the kernel writes as many as exist now, not as many as the request has room for
MAX_DIGITS = 20
MBPS = 1_000_000
_UNKNOWN_MBPS = (1 << 32) - 1
"""SPEED_UNKNOWN of <linux/ethtool.h>, which some kernels write as a number without a sign."""


class HostNics:
    """The NICs of one host, as a mapping of NIC ids of the fabric to network devices."""

    reads_per_period = 1

    def __init__(self, host: str, device_of: Mapping[str, str], root: Path = Path("/")) -> None:
        self.name = f"NICs of {host}"
        self._host = host
        self._device_of = dict(device_of)
        self._root = root
        self._restarts = Restarts()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    async def read(self, now_unix_ns: int) -> Sequence[DeviceSamples]:
        """Return the counters of every present NIC; raises SourceError if none is present."""
        samples, faults = [], []
        for nic, device in self._device_of.items():
            try:
                samples.append(self._nic(nic, device, now_unix_ns))
            except OSError as fault:
                faults.append(f"{device}: {fault.strerror or fault}")
        if not samples:
            raise SourceError("; ".join(faults))
        return [DeviceSamples(Source.HOST, self._host, samples)]

    async def close(self) -> None:
        """Close the socket used for ioctls."""
        self._socket.close()

    def _nic(self, nic: str, device: str, now_unix_ns: int) -> PortSample:
        link = self._root / "sys/class/net" / device
        boot = _line(self._root / "proc/sys/kernel/random/boot_id")
        identity = f"{boot} {(link / 'ifindex').read_text().strip()}"
        hardware = {name: value for folder in self._hardware(device) for name, value in _numbers(folder)}
        downs = _line(link / "carrier_down_count")
        flaps = {"carrier_down_count": int(downs)} if downs.isdecimal() and len(downs) <= MAX_DIGITS else {}
        statistics = dict(_numbers(link / "statistics"))
        counters = {**flaps, **statistics, **driver_counters(self._socket, device), **hardware}
        speed_bps = _speed_bps(_line(link / "speed"))
        sample = nic_sample(nic, counters, timestamp_unix_ns=now_unix_ns, keep=sorted(hardware), speed_bps=speed_bps)
        return self._restarts.identified(sample, identity)

    def _hardware(self, device: str) -> Iterator[Path]:
        """Yield the hw_counters of the RDMA port that belongs to a network device."""
        for port in _rdma_ports(self._root, device):
            yield port / "hw_counters"


def _speed_bps(mbps: str) -> int | None:
    """Return a link's rate from the kernel's text; None where it is down (-1) or the driver has none."""
    known = mbps.isdecimal() and len(mbps) <= MAX_DIGITS and 0 < int(mbps) < _UNKNOWN_MBPS
    return int(mbps) * MBPS if known else None


def rdma_devices(root: Path, device: str) -> list[str]:
    """Return the RDMA devices of a network device, such as mlx5_0."""
    return sorted({port.parent.parent.name for port in _rdma_ports(root, device)})


def _rdma_ports(root: Path, device: str) -> Iterator[Path]:
    """Yield the folders of the RDMA ports that belong to a network device."""
    for port in sorted((root / "sys/class/infiniband").glob("*/ports/*")):
        owners = {_line(path) for path in (port / "gid_attrs" / "ndevs").glob("*")} - {""}
        beside = port.parent.parent / "device" / "net" / device
        if device in owners or (not owners and beside.exists()):
            yield port


def driver_counters(ioctls: socket.socket, device: str) -> dict[str, int]:
    """Return the counters that `ethtool -S` prints; {} for a driver without such counters."""
    count = _count(ioctls, device)
    if not count:
        return {}
    names = _ioctl(ioctls, device, struct.pack("=III", ETHTOOL_GSTRINGS, ETH_SS_STATS, count), ETH_GSTRING_LEN * count)
    values = _ioctl(ioctls, device, struct.pack("=II", ETHTOOL_GSTATS, count), 8 * count)
    returned = struct.unpack_from("=I", values, 4)[0]  # the number of queues may have changed meanwhile
    if returned != count or struct.unpack_from("=I", names, 8)[0] != count:
        return {}
    read = struct.unpack_from(f"={count}Q", values, 8)
    texts = (names[12 + at * ETH_GSTRING_LEN :][:ETH_GSTRING_LEN].split(b"\0")[0] for at in range(count))
    return {text.decode("ascii", "replace"): value for text, value in zip(texts, read, strict=True)}


def _count(ioctls: socket.socket, device: str) -> int:
    header = struct.pack("=IIQ", ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_STATS)
    try:
        reply = _ioctl(ioctls, device, header, 4)
    except OSError as fault:
        if fault.errno == errno.EOPNOTSUPP:
            return 0
        raise
    known, count = struct.unpack_from("=QI", reply, 8)
    return int(count) if known and count <= MAX_STATS else 0


def _ioctl(ioctls: socket.socket, device: str, header: bytes, room: int) -> bytes:
    """Run one ethtool command with `room` bytes behind its header, and return the whole buffer."""
    data = array.array("B", header + bytes(room + SPARE_STATS * ETH_GSTRING_LEN))
    request = struct.pack("16sP16x", device.encode()[:15], data.buffer_info()[0])
    fcntl.ioctl(ioctls, SIOCETHTOOL, request)
    return data.tobytes()


def _numbers(folder: Path) -> Iterator[tuple[str, int]]:
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            text = _line(path)
            if text.isdecimal() and len(text) <= MAX_DIGITS:
                yield path.name, int(text)


def _line(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
