"""The two gateway processes of a pair: start them, kill them in each of several manners, recover them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from heddle.dataplane.control.status_socket import StatusSocketError, read_status, socket_path
from heddle.mininet_topos.vpc.gateways import network_file, write_yaml
from tests.support.pair.site import GATEWAYS, Site, gateway_config, network

HEDDLE = (sys.executable, "-m", "heddle.programs.console.main")
TIMEOUT_S = 120.0
POLL_INTERVAL_S = 0.02
MANY_MISSED = 100
"""For `missed` of a pair in which a member that other tests keep from the processor for 300 ms is no dead partner.

It would be taken over, and what waits in its rings is dropped once it runs again. A member whose process was killed is
noticed as before, since its port is unreachable.
"""


class Death(StrEnum):
    """A manner in which a gateway fails."""

    BOTH = "both"  # kill -9 of control and data process at once
    DATA = "data"  # kill -9 of the data process
    HANG = "hang"  # SIGSTOP of the data process; `recover` sends SIGCONT
    CONTROL = "control"  # kill -9 of the control process
    TERM = "term"  # SIGTERM: the gateway hands over to its partner
    POWER = "power"  # kill -9 of both with all links down: the partner receives no last message


class Gateways:
    """The pair of gateway processes at a site."""

    def __init__(self, site: Site, folder: Path, more: Mapping[str, Any] | None = None, **partner: Any) -> None:
        """Start both; `more` adds keys to their config files, `partner` keys to the section `partner`."""
        self.site, self.folder = site, folder
        self.network = write_yaml(folder / "network.yaml", network_file(network()))
        self._more, self._partner = dict(more or {}), partner
        self._running: dict[str, subprocess.Popen[str]] = {}
        try:
            for name in GATEWAYS:
                self._start(name)
            for name in GATEWAYS:
                self._await_ready(name)
        except BaseException:
            self.close()
            raise

    def start(self, name: str) -> None:
        """Start a gateway and wait until it forwards."""
        self._start(name)
        self._await_ready(name)

    def _start(self, name: str) -> None:
        config = {**gateway_config(name, self.folder, **self._partner), **self._more}
        path = write_yaml(self.folder / f"{name}.yaml", config)
        command = [*self.site.entrance(name), *HEDDLE, "gateway", "--config", str(path)]
        if "controller" not in config:
            command += ["--network", str(self.network)]
        with (self.folder / f"{name}.log").open("a") as log:
            self._running[name] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)

    def _await_ready(self, name: str) -> None:
        process = self._running[name]
        assert process.stdout is not None
        if not process.stdout.readline():
            raise RuntimeError(f"{name} did not start: {self.log_text(name).strip()}")

    def log_text(self, name: str) -> str:
        """Return the log of a gateway."""
        return (self.folder / f"{name}.log").read_text()

    def status(self, name: str) -> dict[str, Any]:
        """Return the reply of the status socket, as `heddle gateway show` reads it; raises StatusSocketError."""
        return read_status(socket_path(self.folder, name))

    def pid(self, name: str) -> int:
        """Return the process ID of the control process."""
        return self._running[name].pid

    def serving(self, role: str = "gw1") -> str:
        """Wait until a gateway serves a role and return its name; during a takeover neither does."""
        found: list[str] = []

        def is_served() -> bool:
            found.extend(name for name in GATEWAYS if self.serves(name, role))
            return bool(found)

        self.until(is_served, f"a gateway serves the role of {role}")
        return found[0]

    def serves(self, name: str, role: str = "gw1") -> bool:
        """Return whether a gateway serves a role now."""
        with suppress(StatusSocketError):
            return bool(role in self.status(name)["pair"]["serves"])
        return False

    def until(self, true: Callable[[], bool], what: str) -> None:
        """Poll a condition until it holds; raises RuntimeError with its description after `TIMEOUT_S`."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            with suppress(StatusSocketError):
                if true():
                    return
            if time.monotonic() > deadline:
                raise RuntimeError(f"not reached within {TIMEOUT_S:.0f} s: {what}")
            time.sleep(POLL_INTERVAL_S)

    def in_step(self) -> bool:
        """Return whether both receive heartbeats and each holds a complete copy of the other's state."""
        pairs = [self.status(name)["pair"] for name in GATEWAYS]
        copied = all(pair["hears_partner"] and pair["has_copy"] and pair["partner_has_copy"] for pair in pairs)
        return copied and bool(pairs[0]["serves"] or pairs[1]["serves"])

    def die(self, name: str, death: Death) -> None:
        """Make a gateway fail; `recover` undoes it."""
        process, data = self._running[name], self.status(name)["pid"]
        if death is Death.POWER:
            self.site.plug(name, up=False)
        if death is Death.TERM:
            process.send_signal(signal.SIGTERM)
            return
        if death is not Death.CONTROL:
            os.kill(data, signal.SIGSTOP if death is Death.HANG else signal.SIGKILL)
        if death not in (Death.DATA, Death.HANG):
            process.kill()

    def recover(self, name: str, death: Death) -> None:
        """Restart a gateway after that failure, and wait until the pair is in step."""
        if death is Death.HANG:
            with suppress(ProcessLookupError):  # its supervisor may have ended it meanwhile
                if (data := self.status(name)["pid"]) != 0:
                    os.kill(data, signal.SIGCONT)
        elif death is not Death.DATA:
            process = self._running[name]
            process.wait(TIMEOUT_S)
            assert process.stdout is not None
            process.stdout.close()
            if death is Death.POWER:
                self.site.plug(name, up=True)
            self.start(name)
        self.until(lambda: self.status(name)["pid"] != 0, f"{name} forwards again")
        self.until(self.in_step, "the pair is in step")

    def serve(self, content: Mapping[str, Any]) -> None:
        """Write the network file and send both gateways SIGHUP to reload it."""
        self.network.write_text(yaml.safe_dump(dict(content)))
        for process in self._running.values():
            process.send_signal(signal.SIGHUP)

    def close(self) -> None:
        for process in self._running.values():
            if process.poll() is None:
                process.terminate()
        for process in self._running.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
            process.communicate()
