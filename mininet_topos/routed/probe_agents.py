"""The probe agents of all hosts of a lab in one process: each opens its sockets in the namespace of its host.

    python -m heddle.mininet_topos.routed.probe_agents CONTROLLER FILE      {host: {"pid": 17, "devices": ["eth0"]}}

A process for each host, `heddle agent probe`, would take a second of processor time to start. Sessions leave from this
process's own network namespace: hosts of a lab have no management network. Prints a JSON line when all are attached.
"""

import asyncio
import json
import logging
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

from heddle.foundation.network_namespace import network_namespace
from heddle.probing.agent.agent import Ends, ProbeAgent
from heddle.probing.agent.devices import mesh_ends, probers, returning_ends
from heddle.probing.prober import RATE_PPS

FILE = "hosts.json"
POLL_S = 0.02


async def _serve(agents: list[ProbeAgent]) -> None:
    """Run until SIGTERM; raises any exception of an agent."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    sessions = [asyncio.create_task(agent.run()) for agent in agents]
    while not all(agent.counts["sessions"] for agent in agents) and not ended.is_set():
        await asyncio.sleep(POLL_S)
    print(json.dumps({"ready": True, "agents": len(agents)}), flush=True)
    waiting = asyncio.create_task(ended.wait())
    await asyncio.wait([waiting, *sessions], return_when=asyncio.FIRST_COMPLETED)
    for task in (waiting, *sessions):
        if task.done():
            task.result()
        task.cancel()
    await asyncio.gather(waiting, *sessions, return_exceptions=True)


def main(controller: str, file: Path) -> None:
    """Open the sockets of all hosts and run their agents; raises OSError, and DeviceError for a missing device."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    agents = []
    with ExitStack() as stack:
        for host, place in json.loads(file.read_text()).items():
            with network_namespace(place["pid"]):
                nics = stack.enter_context(probers(place["devices"]))
                mesh, returning = stack.enter_context(mesh_ends(nics)), stack.enter_context(returning_ends(nics))
            agents.append(ProbeAgent(controller, host, nics, rate_pps=RATE_PPS, ends=Ends(mesh, returning)))
        asyncio.run(_serve(agents))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
