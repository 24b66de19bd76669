"""Processes of `heddle agent probe` in the namespaces of a routed lab's hosts."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from heddle.controller.probe_sessions.sessions import ProbeAgents
from heddle.mininet_topos.routed.lab import RoutedLab

COMMAND = (sys.executable, "-m", "heddle.programs.console.main", "agent", "probe")
TIMEOUT_S = 60


@contextmanager
def probe_agents(lab: RoutedLab, controller: str, hosts: Sequence[str]) -> Iterator[dict[str, "subprocess.Popen[str]"]]:
    """Run an agent for each host, in its namespace; all have opened their sockets when the block begins."""
    running: dict[str, subprocess.Popen[str]] = {}
    try:
        for host in hosts:
            nics = [nic for nic in lab.fabric.nics if nic.host == host]
            devices = [word for nic in nics for word in ("--device", lab.net.device_of[nic.id])]
            words = [*COMMAND, "--host", host, "--controller", controller, *devices]
            line = lab.net.nic_command(nics[0], *words)
            running[host] = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
        for host, process in running.items():
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["host"] == host
        yield running
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.communicate(timeout=TIMEOUT_S)


async def until_attached(agents: ProbeAgents, hosts: Sequence[str]) -> None:
    """Wait until exactly these hosts have an agent."""
    async with asyncio.timeout(TIMEOUT_S):
        while agents.by_host.keys() != set(hosts):
            await asyncio.sleep(0.02)
