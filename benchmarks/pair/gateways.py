"""The two gateways as processes that can be killed in every way, and that come back."""

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

from benchmarks.pair.site import GATEWAYS, Site, gateway_config, network
from dataplane.control.status_socket import StatusSocketError, ask, socket_of
from mininet_topos.vpc.gateways import network_file, write_yaml

HEDDLE = (sys.executable, "-m", "controller.cli.main")
PATIENCE_S = 120.0
GLANCE_S = 0.02


class Death(StrEnum):
    """What happens to a gateway."""

    BOTH = "both"  # kill -9 of control and data process at once
    DATA = "data"  # kill -9 of the data process
    HANG = "hang"  # the data process is stopped, and goes on when the gateway is to be back
    CONTROL = "control"  # kill -9 of the control process
    TERM = "term"  # SIGTERM: it hands over
    POWER = "power"  # kill -9 of both, and no cable answers any more: nothing tells the partner


class Gateways:
    """The pair at a site."""

    def __init__(self, site: Site, folder: Path, more: Mapping[str, Any] | None = None, **partner: Any) -> None:
        """Start both; `more` is for their config files, `partner` for what is said there of the partner."""
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
        """Start one and wait until it forwards."""
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
            raise RuntimeError(f"{name} did not start: {self.told(name).strip()}")

    def told(self, name: str) -> str:
        """Return what one has logged."""
        return (self.folder / f"{name}.log").read_text()

    def status(self, name: str) -> dict[str, Any]:
        """Return what `heddle gateway show` tells; raises StatusSocketError."""
        return ask(socket_of(self.folder, name))

    def pid(self, name: str) -> int:
        """Return the control process."""
        return self._running[name].pid

    def serving(self, share: str = "gw1") -> str:
        """Return which of the two serves a share; while it changes hands nobody does, and that is waited for."""
        found: list[str] = []

        def somebody() -> bool:
            found.extend(name for name in GATEWAYS if self.serves(name, share))
            return bool(found)

        self.until(somebody, f"somebody serves the share of {share}")
        return found[0]

    def serves(self, name: str, share: str = "gw1") -> bool:
        """Say whether one serves a share at this moment."""
        with suppress(StatusSocketError):
            return bool(share in self.status(name)["pair"]["serves"])
        return False

    def until(self, true: Callable[[], bool], what: str) -> None:
        """Wait; raises RuntimeError with what was waited for."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with suppress(StatusSocketError):
                if true():
                    return
            if time.monotonic() > deadline:
                raise RuntimeError(f"waited in vain until {what}")
            time.sleep(GLANCE_S)

    def in_step(self) -> bool:
        """Say whether both hear each other and each keeps a copy of all that the other knows."""
        looks = [self.status(name)["pair"] for name in GATEWAYS]
        told = all(look["hears_partner"] and look["has_copy"] and look["partner_has_copy"] for look in looks)
        return told and bool(looks[0]["serves"] or looks[1]["serves"])

    def die(self, name: str, death: Death) -> None:
        """End one as told; `recover` brings it back."""
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
        """Have one back that died so, and wait until the pair is in step again."""
        if death is Death.HANG:
            with suppress(ProcessLookupError):  # its supervisor may have ended it meanwhile
                if (data := self.status(name)["pid"]) != 0:
                    os.kill(data, signal.SIGCONT)
        elif death is not Death.DATA:
            process = self._running[name]
            process.wait(PATIENCE_S)
            assert process.stdout is not None
            process.stdout.close()
            if death is Death.POWER:
                self.site.plug(name, up=True)
            self.start(name)
        self.until(lambda: self.status(name)["pid"] != 0, f"{name} forwards again")
        self.until(self.in_step, "the pair is in step")

    def serve(self, content: Mapping[str, Any]) -> None:
        """Change the network file and have both read it."""
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
