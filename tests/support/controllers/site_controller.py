"""A controller at a site with a pair of gateways, and clients of it."""

import subprocess
from pathlib import Path
from typing import Any

import yaml

from heddle.mininet_topos.vpc.gateways import write_yaml
from tests.support.pair.gateways import HEDDLE
from tests.support.pair.site import HOSTS, MANAGEMENT, Site
from tests.support.processes.commands import Commands

PORT = 50051
ADDRESS = f"{MANAGEMENT['controller']}:{PORT}"
FABRIC = {
    "version": 1,
    "name": "small",
    "generate": {"kind": "spine_leaf", "spines": 1, "leaves": 2, "hosts_per_leaf": 1},
}


class SiteController:
    """A controller process; after `kill` and `start` it holds no network."""

    def __init__(self, site: Site, folder: Path) -> None:
        self._site, self._folder = site, folder
        self._fabric = write_yaml(folder / "fabric.yaml", FABRIC)
        self._config = write_yaml(
            folder / "controller.yaml",
            {
                "insecure": True,  # its network is a namespace of the test
                "vteps": [f"{vtep}/32" for vtep in HOSTS.values()],
                "gateway_timeout_ms": 60_000,
            },
        )
        self._commands = Commands(site.entrance("controller"))
        self.start()

    def start(self) -> None:
        command = [*self._site.entrance("controller"), *HEDDLE, "run", str(self._fabric), "--config", str(self._config),
                   "--openflow", "127.0.0.1:0", "--grpc", ADDRESS, "--http", "127.0.0.1:0"]  # fmt: skip
        with (self._folder / "controller.log").open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), (self._folder / "controller.log").read_text()

    def kill(self) -> None:
        self._commands.close()
        self._process.kill()
        self._process.communicate()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a client command and return its status and output."""
        return self._commands.run(*arguments, "--server", ADDRESS, "--json")

    def heddle(self, *arguments: str) -> Any:
        """Run a client command that must succeed and return its JSON."""
        return self._commands.result(*arguments, "--server", ADDRESS, "--json")

    def apply(self, content: dict[str, Any]) -> Any:
        """Apply a network file; returns once both gateways have installed it."""
        path = self._folder / "applied.yaml"
        path.write_text(yaml.safe_dump(content))
        return self.heddle("vpc", "apply", str(path))

    def attached(self) -> set[str]:
        """Return the names of the gateways that have a session."""
        return {one["hello"]["gateway_id"] for one in self.heddle("vpc", "gateways")["gateways"] if one["attached"]}
