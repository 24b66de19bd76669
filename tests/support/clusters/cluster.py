"""Three controllers as processes over a private etcd, and switches that connect to all of them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import grpc
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

from heddle.foundation.tls_files import TlsFiles
from tests.support.clusters.etcd import LOOPBACK, EtcdCluster, Host
from tests.support.free_ports import free_ports

JOBS = "heddle.v1.JobService"
START_S = 120
HEDDLE = (sys.executable, "-m", "heddle.programs.console.main")


class ControllerProcess:
    """One of several controllers, on fixed ports; it can be killed, stopped and started again."""

    def __init__(
        self, folder: Path, fabric: Path, number: int, etcd: EtcdCluster, etcd_files: TlsFiles | None = None,
        host: Host = LOOPBACK, settings: Mapping[str, object] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        shown = {name: str(getattr(etcd_files, name)) for name in ("certificate", "key", "ca") if etcd_files}
        openflow, api, http = free_ports(3)
        self.name = f"c{number}"
        self.http = f"127.0.0.1:{http}"
        self.openflow, self.grpc = f"{host.address}:{openflow}", f"{host.address}:{api}"
        cluster = {"endpoints": etcd.endpoints, "name": self.name, "advertise": self.grpc, "tls": shown}
        config = folder / f"{self.name}.yaml"
        config.write_text(
            yaml.safe_dump(
                {
                    "openflow": self.openflow,
                    "grpc": self.grpc,
                    "http": self.http,
                    "insecure": bool(host.entrance),
                    **settings,
                    "cluster": {**cluster, "memory": str(folder / "state")},
                }
            )
        )
        self.log = folder / f"{self.name}.log"
        self._command = [*host.entrance, *HEDDLE, "run", str(fabric), "--config", str(config)]
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it; `wait_until_ready` returns when it listens."""
        environment = {key: value for key, value in os.environ.items() if key != "HEDDLE_STATE"}
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )

    def wait_until_ready(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"{self.name} ended with status {self.process.wait(START_S)}: {self.log.read_text()}"
        assert json.loads(line)["ready"]

    def signal(self, wanted: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(wanted)

    def kill(self) -> None:
        """Kill it (SIGKILL), also where it is stopped."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(START_S)
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def end(self) -> int:
        """Send SIGTERM and return the exit status."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(START_S)

    def leads(self) -> bool:
        """Return whether it serves calls at this moment."""
        with grpc.insecure_channel(self.grpc) as channel:
            try:
                asked = health_pb2.HealthCheckRequest(service=JOBS)
                return health_pb2_grpc.HealthStub(channel).Check(asked, timeout=0.5).status == 1
            except grpc.RpcError:
                return False


class ControllerCluster:
    """Three controllers; `addresses` is what `heddle --server` takes."""

    def __init__(
        self, folder: Path, fabric: Path, etcd: EtcdCluster, count: int = 3, etcd_files: TlsFiles | None = None,
        hosts: Sequence[Host] = (), settings: Mapping[str, object] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """Start them; `settings` are further keys of their config files."""
        places = hosts or [LOOPBACK] * count
        self.members = [
            ControllerProcess(folder, fabric, number, etcd, etcd_files, host, settings)
            for number, host in enumerate(places)
        ]
        self.addresses = ",".join(member.grpc for member in self.members)
        try:
            for member in self.members:
                member.start()
            for member in self.members:
                member.wait_until_ready()
        except BaseException:
            self.close()
            raise

    def leader(self, within_s: float = 60.0) -> ControllerProcess:
        """Wait for a controller that serves calls."""
        end = time.monotonic() + within_s
        while True:
            for member in self.members:
                if member.process is not None and member.leads():
                    return member
            assert time.monotonic() < end, [member.log.read_text()[-2_000:] for member in self.members]
            time.sleep(0.02)

    def close(self) -> None:
        for member in self.members:
            member.kill()

    def __enter__(self) -> "ControllerCluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
