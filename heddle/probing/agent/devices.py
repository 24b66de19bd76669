"""Find the IPv4 addresses of network devices, and open raw sockets on them; what is missing is named."""

import fcntl
import logging
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from ipaddress import IPv4Address

from heddle.probing.agent.mesh import MeshEnd
from heddle.probing.agent.returning import ReturningEnd
from heddle.probing.datagram import MESH_PORT
from heddle.probing.prober import Prober

_SIOCGIFADDR = 0x8915
_IFREQ = struct.Struct("16s24x")
_ADDRESS_AT = 20
MAX_NAME_BYTES = 15
log = logging.getLogger("heddle.probe")


class DeviceError(Exception):
    """A device cannot be probed from; the text says which and why."""


def address_of(device: str) -> int:
    """Return the first IPv4 address of a device (netdevice(7)); raises DeviceError."""
    name = device.encode()
    if not 0 < len(name) <= MAX_NAME_BYTES:
        raise DeviceError(f"{device!r}: no name of a network device")
    try:
        socket.if_nametoindex(device)
    except OSError:
        raise DeviceError(f"{device}: there is no such network device here; `ip link` lists them") from None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        try:
            reply = fcntl.ioctl(control, _SIOCGIFADDR, _IFREQ.pack(name))
        except OSError:
            raise DeviceError(f"{device}: it has no IPv4 address") from None
    return int(IPv4Address(reply[_ADDRESS_AT : _ADDRESS_AT + 4]))


@contextmanager
def probers(devices: Iterable[str]) -> Iterator[dict[int, tuple[str, Prober]]]:
    """Open a prober for each device; yields devices and probers by address. Raises DeviceError."""
    with ExitStack() as stack:
        found: dict[int, tuple[str, Prober]] = {}
        for device in devices:
            address = address_of(device)
            if address in found:
                raise DeviceError(f"{device}: {found[address][0]} has its address, {IPv4Address(address)}, already")
            try:
                found[address] = device, stack.enter_context(Prober(address, device))
            except PermissionError:
                raise DeviceError(
                    "raw sockets need CAP_NET_RAW: run the agent as root, or with that capability"
                ) from None
            except OSError as error:
                raise DeviceError(f"{device}: {error.strerror}") from None
        yield found


@contextmanager
def mesh_ends(nics: Mapping[int, tuple[str, Prober]]) -> Iterator[dict[int, MeshEnd]]:
    """Open an end of the ping mesh for each device of `probers`; one whose port is in use takes no part."""
    with ExitStack() as stack:
        found: dict[int, MeshEnd] = {}
        for address, (device, _) in nics.items():
            try:
                found[address] = stack.enter_context(closing(MeshEnd(address, device)))
            except OSError as error:
                log.warning("%s takes no part in the ping mesh: UDP port %d: %s", device, MESH_PORT, error.strerror)
        yield found


@contextmanager
def returning_ends(nics: Mapping[int, tuple[str, Prober]]) -> Iterator[dict[int, ReturningEnd]]:
    """Open an end of probes that return by themselves for each device of `probers`; one that fails takes no part."""
    with ExitStack() as stack:
        found: dict[int, ReturningEnd] = {}
        for address, (device, _) in nics.items():
            try:
                found[address] = stack.enter_context(closing(ReturningEnd(device)))
            except OSError as error:
                text = "%s sends no probes that return by their SIDs, which need packet sockets: %s"
                log.warning(text, device, error.strerror)
        yield found
