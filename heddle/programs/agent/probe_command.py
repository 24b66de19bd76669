"""Check the options of `heddle agent probe`, open its sockets, and run the agent."""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heddle.controller.config.text.complaint import one_line
from heddle.controller.model.address import ip_text
from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.controller.model.server_address import is_address_port, is_socket
from heddle.controller.runtime.interpreter import shorten_pauses
from heddle.foundation.certificate import CertificateError
from heddle.foundation.identity import TLS_VARIABLE
from heddle.foundation.tls_files import Tls, named_tls
from heddle.probing.agent.agent import Ends, ProbeAgent
from heddle.probing.agent.devices import DeviceError, mesh_ends, probers, returning_ends
from heddle.probing.prober import Prober

MAX_DEVICES = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOptions:
    """The options of the command line, unchecked."""

    controller: str
    host: str
    devices: Sequence[str]
    rate_pps: int


def run_probe_agent(options: ProbeOptions) -> None:
    """Run until SIGINT or SIGTERM; raises HeddleError if the agent cannot start."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for each in map(str.strip, options.controller.split(",")):
        if not is_address_port(each) and not is_socket(each):
            raise InputError(f"--controller {one_line(each)}: must be ADDR:PORT such as 10.0.0.9:50051, or unix:/PATH")
    if not 0 < len(options.devices) <= MAX_DEVICES:
        raise InputError("--device DEVICE is missing: the network devices of the host's NICs, each once")
    if len(set(options.devices)) < len(options.devices):
        raise InputError("--device: one is given twice")
    try:
        tls = named_tls(os.environ.get(TLS_VARIABLE), logging.getLogger("heddle.probe").error)
    except CertificateError as error:
        raise InputError(f"{TLS_VARIABLE}: {error}") from None
    try:
        with probers(options.devices) as nics, mesh_ends(nics) as mesh, returning_ends(nics) as returning:
            asyncio.run(_serve(options, nics, Ends(mesh, returning), tls))
    except DeviceError as error:
        raise PrerequisiteError(f"--device: {one_line(str(error))}") from None


async def _serve(options: ProbeOptions, nics: Mapping[int, tuple[str, Prober]], ends: Ends, tls: Tls | None) -> None:
    ended = asyncio.Event()
    running = asyncio.get_running_loop()
    for wanted in (signal.SIGINT, signal.SIGTERM):
        running.add_signal_handler(wanted, ended.set)
    agent = ProbeAgent(options.controller, options.host, nics, rate_pps=options.rate_pps, tls=tls, ends=ends)
    shorten_pauses()
    addresses = {device: ip_text(ip) for ip, (device, _) in nics.items()}
    print(json.dumps({"ready": True, "host": options.host, "nics": addresses}), flush=True)
    attached = asyncio.create_task(agent.run())
    await asyncio.wait([attached, asyncio.create_task(ended.wait())], return_when=asyncio.FIRST_COMPLETED)
    attached.cancel()
    await asyncio.gather(attached, return_exceptions=True)
    logging.getLogger("heddle.probe").info("ended: %s", json.dumps(agent.counts))
