"""A controller at a site with a pair of gateways, and its command line."""

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from benchmarks.pair.gateways import HEDDLE
from benchmarks.pair.site import HOSTS, MANAGEMENT, Site
from mininet_topos.vpc.gateways import write_yaml

PORT = 50051
ADDRESS = f"{MANAGEMENT['controller']}:{PORT}"
PATIENCE_S = 300
FABRIC = {
    "version": 1,
    "name": "small",
    "generate": {"kind": "spine_leaf", "spines": 1, "leaves": 2, "hosts_per_leaf": 1},
}


class SiteController:
    """It can be killed and started again; what it was told is gone then."""

    def __init__(self, site: Site, folder: Path) -> None:
        self._site, self._folder = site, folder
        self._fabric = write_yaml(folder / "fabric.yaml", FABRIC)
        self._config = write_yaml(
            folder / "controller.yaml",
            {"vteps": [f"{vtep}/32" for vtep in HOSTS.values()], "gateway_timeout_ms": 60_000},
        )
        self.start()

    def start(self) -> None:
        command = [*self._site.entrance("controller"), *HEDDLE, "run", str(self._fabric), "--config", str(self._config),
                   "--openflow", "127.0.0.1:0", "--grpc", ADDRESS, "--http", "127.0.0.1:0"]  # fmt: skip
        with (self._folder / "controller.log").open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), (self._folder / "controller.log").read_text()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a client of it; the status and what it printed are the caller's to judge."""
        command = [*self._site.entrance("controller"), *HEDDLE, *arguments, "--server", ADDRESS, "--json"]
        return subprocess.run(command, text=True, capture_output=True, timeout=PATIENCE_S, check=False)

    def heddle(self, *arguments: str) -> Any:
        """Run a client of it that has to succeed; return its JSON."""
        said = self.run(*arguments)
        assert said.returncode == 0, said.stderr
        return json.loads(said.stdout)

    def apply(self, content: dict[str, Any]) -> Any:
        """Apply a network file; answered once both gateways go by it."""
        path = self._folder / "applied.yaml"
        path.write_text(yaml.safe_dump(content))
        return self.heddle("vpc", "apply", str(path))

    def attached(self) -> set[str]:
        """Return the gateways that have a session."""
        return {one["hello"]["gateway_id"] for one in self.heddle("vpc", "gateways")["gateways"] if one["attached"]}
