"""A balancer's site in namespaces: clients and back ends with nginx on the kernel's VXLAN, and `heddle balancer`.

client u0 ─┐            ┌─ u0 back end 10.0.0.51 .. 53, with the virtual IP on its loopback
           ├─ br0 switch┤
lb hosts  ─┘  u0, p0    └─ p0: a device of the VPC for probes and for the partner
"""

import json
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from heddle.dataplane.config.balancers import balancer_mac
from heddle.dataplane.control.status_socket import read_status, socket_path
from heddle.foundation.address import mac_text
from tests.support.packets.namespaces import Namespace, join

HEDDLE = (sys.executable, "-m", "heddle.programs.console.main")
READY_S, PATIENCE_S = 600, 60
VNI, VIP, POOL, SECOND_POOL = 100, "10.0.0.100", "10.0.0.201", "10.0.0.202"
LB, SECOND_LB, PROBER, SECOND_PROBER, CLIENT = "192.0.2.1", "192.0.2.2", "192.0.2.9", "192.0.2.8", "192.0.2.10"
GATEWAY = "192.0.2.20"
"""VTEP of the VPC's gateway: clients outside of the VPC come from it."""
ENDS = (51, 52, 53)
INTERVAL_MS, TIMEOUT_MS, FALL = 200, 150, 2
LB_MAC = mac_text(balancer_mac(VNI))


def mac(last: int) -> str:
    """Return the MAC of 10.0.0.LAST in the VPC."""
    return f"02:00:00:64:00:{last:02x}"


def vtep(last: int) -> str:
    """Return the address of a back end's host."""
    return f"192.0.2.{last}"


class Site:
    """A switch, a client, three back ends with nginx, and the balancer's host with a device for probes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spaces: list[Namespace] = []
        self.nginx: dict[int, subprocess.Popen[bytes]] = {}
        self.switch = self._space()
        self.switch.run("ip", "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        self.switch.run("ip", "link", "set", "br0", "up")
        self.hosts = [self._balancers_host(PROBER, 250), self._balancers_host(SECOND_PROBER, 251)]
        self.client = self._space()
        self._tenant(self.client, "u0", CLIENT, 10)
        self.ends: dict[int, Namespace] = {}
        for last in ENDS:
            self.ends[last] = self._space()
            self._tenant(self.ends[last], "u0", vtep(last), last)
            self.ends[last].run("ip", "addr", "add", f"{VIP}/32", "dev", "lo")
            self.start_nginx(last)

    def _balancers_host(self, prober: str, last: int) -> Namespace:
        """Make a host with a device for a balancer, u0, and one for its probes and its partner."""
        host = self._space()
        self._plug(host, "u0", None)
        self._tenant(host, "p0", prober, last)
        return host

    def plugged(self, address: str) -> Namespace:
        """Add a host to the switch, with u0 and an address of the underlay."""
        space = self._space()
        self._plug(space, "u0", address)
        return space

    def mac_of_balancer(self) -> str:
        """Return the MAC of the first balancer's port."""
        return str(json.loads(self.hosts[0].run("ip", "-j", "link", "show", "u0").stdout)[0]["address"])

    def _space(self) -> Namespace:
        self.spaces.append(Namespace())
        return self.spaces[-1]

    def _plug(self, space: Namespace, name: str, address: str | None) -> None:
        port = f"s{len(self.spaces)}{name}"
        join(self.switch, port, space, name, mtu_bytes=1600)
        self.switch.run("ip", "link", "set", port, "master", "br0")
        if address:
            space.run("ip", "addr", "add", f"{address}/24", "dev", name)

    def _tenant(self, space: Namespace, name: str, address: str, last: int) -> None:
        """Give a namespace an address in the VPC, with static entries for all others, as `heddle vtep` programs."""
        self._plug(space, name, address)
        space.run("ip", "link", "add", "vx", "address", mac(last), "mtu", "1450", "type", "vxlan", "id", str(VNI),
                  "local", address, "dev", name, "dstport", "4789", "nolearning")  # fmt: skip
        space.run("ip", "addr", "add", f"10.0.0.{last}/24", "dev", "vx")
        space.run("ip", "link", "set", "vx", "up")
        others = {10: CLIENT, 250: PROBER, 251: SECOND_PROBER, **{each: vtep(each) for each in ENDS}}
        for other, where in others.items():
            if other != last:
                space.run("ip", "neigh", "replace", f"10.0.0.{other}", "lladdr", mac(other), "dev", "vx")
                space.run("bridge", "fdb", "append", mac(other), "dev", "vx", "dst", where)
        space.run("bridge", "fdb", "append", LB_MAC, "dev", "vx", "dst", LB)
        for own in (VIP, POOL):
            space.run("ip", "neigh", "replace", own, "lladdr", LB_MAC, "dev", "vx")

    def start_nginx(self, last: int) -> None:
        prefix = self.folder / f"nginx{last}"
        prefix.mkdir(exist_ok=True)
        (prefix / "big").write_bytes(bytes(4_000_000))
        (prefix / "nginx.conf").write_text(
            f"daemon off; master_process off; user root; pid {prefix}/pid; error_log {prefix}/error.log;\n"
            "worker_rlimit_nofile 65536; events { worker_connections 16384; }\n"
            "http { access_log off; keepalive_requests 100000000; client_max_body_size 0;\n"
            f"root {prefix}; client_body_temp_path {prefix}/b; proxy_temp_path {prefix}/p;\n"
            f"fastcgi_temp_path {prefix}/f; uwsgi_temp_path {prefix}/u; scgi_temp_path {prefix}/s;\n"
            f'server {{ listen 80; listen 8443; location = / {{ return 200 "{last}\\n"; }}\n'
            "location = /in { client_body_buffer_size 1m; proxy_pass_request_body off;\n"
            'proxy_set_header Content-Length ""; proxy_pass http://127.0.0.1:8081/; } }\n'
            "server { listen 127.0.0.1:8081; location = / { return 200; } } }\n"
        )
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        self.nginx[last] = self.ends[last].start(program, "-p", str(prefix), "-c", str(prefix / "nginx.conf"))

    def stop_nginx(self, last: int) -> None:
        self.nginx[last].kill()
        self.nginx[last].wait(10)

    def curl(self, *options: str, port: int = 80, path: str = "") -> subprocess.CompletedProcess[str]:
        command = ("curl", "-sS", "--max-time", "10", *options, f"http://{VIP}:{port}/{path}")
        return self.client.run(*command, check=False)

    def wrk(self, seconds: float, *options: str, port: int = 80, url: str | None = None) -> "subprocess.Popen[str]":
        """Start wrk at the client; its output names errors only if there are any."""
        command = ("wrk", "-t1", "-d", f"{seconds:.0f}", "--latency", *options, url or f"http://{VIP}:{port}/")
        return subprocess.Popen([*self.client.entrance, *command], stdout=subprocess.PIPE, text=True)

    def close(self) -> None:
        for process in self.nginx.values():
            process.kill()
            process.wait(10)
        for space in reversed(self.spaces):
            space.close()


class Running:
    """A balancer process on the site."""

    def __init__(self, site: Site, folder: Path, backend: str, *, number: int = 1, paired: bool = False) -> None:
        self.site, self.folder, self.backend, self.number, self.paired = site, folder, backend, number, paired
        self.serving: Sequence[int] = ENDS
        self.weights: dict[int, int] = {}
        self.id, self.path = f"lb{number}-{backend}", folder / f"balancer{number}.yaml"
        self.draining: tuple[int, ...] = ()
        self.write()
        self.errors = folder / f"errors{number}"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [*site.hosts[number - 1].entrance, *HEDDLE, "balancer", "--config", str(self.path)],
                stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], READY_S)[0], self.log_text()
        line = self.process.stdout.readline()
        assert line, self.log_text()
        self.ready = json.loads(line)

    def write(self) -> None:
        """Write the file: a service with direct return, and one with full NAT."""
        check = {"kind": "http", "path": "/", "interval_ms": INTERVAL_MS, "timeout_ms": TIMEOUT_MS, "rise": 2,
                 "fall": FALL}  # fmt: skip
        common = {"vpc_id": "red", "vip": VIP, "protocol": "tcp", "health_check": check}
        where = {10: CLIENT, 250: PROBER, 251: SECOND_PROBER, **{last: vtep(last) for last in ENDS}}
        vteps, probers = (LB, SECOND_LB), (PROBER, SECOND_PROBER)
        mine, other = self.number - 1, 2 - self.number
        partner = {
            "partner_id": f"lb{other + 1}-{self.backend}",
            "mode": "active-active",
            "interval_ms": 50,
            "paths": [{"listen": f"{probers[mine]}:4790", "partner": f"{probers[other]}:4790"}],
            "takes_over": [{"interface": "u0", "address": vteps[other]}],
        }
        self.path.write_text(yaml.safe_dump({
            **({"partner": partner} if self.paired else {}),
            "balancer_id": self.id, "runtime_dir": str(self.folder), "backend": self.backend, "connections": 1 << 14,
            "interfaces": [{"name": "u0", "address": vteps[mine], "network": "192.0.2.0/24"}],
            "vpcs": [{
                "id": "red", "vni": VNI, "subnets": [{"cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.1"}],
                "endpoints": [{"ip": f"10.0.0.{last}", "mac": mac(last), "vtep_ip": at} for last, at in where.items()],
            }],
            "gateways": [GATEWAY],
            "sites": [{"vpc": "red", "source_pool": [(POOL, SECOND_POOL)[mine]], "probe_device": "vx"}],
            "load_balancers": [
                {**common, "id": "web", "port": 80, "mode": "direct_return",
                 "backends": [{"ip": f"10.0.0.{last}", "draining": last in self.draining,
                               "weight": self.weights.get(last, 1)} for last in self.serving]},
                {**common, "id": "nat", "port": 443, "mode": "full_nat",
                 "backends": [{"ip": f"10.0.0.{last}", "port": 8443, "draining": last in self.draining,
                               "weight": self.weights.get(last, 1)} for last in self.serving]},
            ],
        }))  # fmt: skip

    def until_all_are_up(self) -> None:
        """Wait until both services have all back ends."""
        self.until(lambda: self.up() == self.up(1) == set(ENDS))

    def reload(self) -> None:
        """Write the file and have it read; return once it is served."""
        before = self.log_text().count("is served as read anew")
        self.write()
        self.process.send_signal(signal.SIGHUP)
        self.until(lambda: self.log_text().count("is served as read anew") > before)

    def log_text(self) -> str:
        return self.errors.read_text()

    def status(self) -> dict[str, Any]:
        return read_status(socket_path(self.folder, self.id))

    def up(self, service: int = 0) -> set[int]:
        """Return the last bytes of the back ends that are up."""
        ends = self.status()["balancer"]["services"][service]["back_ends"]
        return {int(end["ip"].rsplit(".")[-1]) for end in ends if end["up"]}

    def until(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert self.process.poll() is None, self.log_text()
            assert time.monotonic() < deadline, self.log_text()
            time.sleep(0.02)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)
        self.process.communicate()
