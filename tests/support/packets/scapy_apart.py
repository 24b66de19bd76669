"""Scapy builds and dissects packets in tests: importing this first keeps it from the machine's interfaces and routes.

Its import lists all interfaces three times, and dissects each of them like a packet: 9 ms of the processor for an
interface, 3.5 s beside labs of 400. And the source of a packet that names none depends on the machine's routes.
"""

import logging
from functools import partial

from scapy.interfaces import InterfaceProvider, NetworkInterface, conf

conf.route_autoload = conf.route6_autoload = False
conf.logLevel = logging.ERROR  # a warning says that an address has no route
_LOOPBACK = {"name": conf.loopback_name, "network_name": conf.loopback_name, "mac": "00:00:00:00:00:00"}
_KNOWN = {conf.loopback_name: NetworkInterface(InterfaceProvider(), _LOOPBACK)}
vars(conf.ifaces)["reload"] = partial(conf.ifaces.data.update, _KNOWN)
