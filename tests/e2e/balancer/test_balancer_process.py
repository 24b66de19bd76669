"""`heddle balancer` between real clients and real nginx back ends on the kernel's VXLAN, in namespaces."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from dataplane.config.balancers import balancer_mac
from dataplane.control.status_socket import read_status, socket_path
from foundation.address import mac_text
from tests.support.namespaces import Namespace, join

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin:/bin") is None
                       and shutil.which("nginx") is None, reason="nginx is not installed"),
]  # fmt: skip
HEDDLE = (sys.executable, "-m", "controller.cli.main")
READY_S, PATIENCE_S = 600, 60
VNI, VIP, POOL, SECOND_POOL = 100, "10.0.0.100", "10.0.0.201", "10.0.0.202"
LB, SECOND_LB, PROBER, SECOND_PROBER, CLIENT = "192.0.2.1", "192.0.2.2", "192.0.2.9", "192.0.2.8", "192.0.2.10"
ENDS = (51, 52, 53)
INTERVAL_MS, TIMEOUT_MS, FALL = 200, 150, 2
LB_MAC = mac_text(balancer_mac(VNI))


def mac(last):
    return f"02:00:00:64:00:{last:02x}"


def vtep(last):
    return f"192.0.2.{last}"


class Site:
    """A switch, a client, three back ends with nginx, and the balancer's host with a device for probes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.spaces, self.nginx = folder, [], {}
        self.switch = self._space()
        self.switch.run("ip", "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        self.switch.run("ip", "link", "set", "br0", "up")
        self.hosts = [self._balancers_host(PROBER, 250), self._balancers_host(SECOND_PROBER, 251)]
        self.client = self._space()
        self._tenant(self.client, "u0", CLIENT, 10)
        self.ends = {}
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
            "events { worker_connections 512; }\n"
            f"http {{ access_log off; root {prefix}; client_body_temp_path {prefix}/b; proxy_temp_path {prefix}/p;\n"
            f"fastcgi_temp_path {prefix}/f; uwsgi_temp_path {prefix}/u; scgi_temp_path {prefix}/s;\n"
            f'server {{ listen 80; listen 8443; location = / {{ return 200 "{last}\\n"; }} }} }}\n'
        )
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        self.nginx[last] = self.ends[last].start(program, "-p", str(prefix), "-c", str(prefix / "nginx.conf"))

    def stop_nginx(self, last: int) -> None:
        self.nginx[last].kill()
        self.nginx[last].wait(10)

    def curl(self, *options: str, port: int = 80, path: str = "") -> subprocess.CompletedProcess[str]:
        command = ("curl", "-sS", "--max-time", "10", *options, f"http://{VIP}:{port}/{path}")
        return self.client.run(*command, check=False)

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
            "sites": [{"vpc": "red", "source_pool": [(POOL, SECOND_POOL)[mine]], "probe_device": "vx"}],
            "load_balancers": [
                {**common, "id": "web", "port": 80, "mode": "direct_return",
                 "backends": [{"ip": f"10.0.0.{last}", "draining": last in self.draining} for last in ENDS]},
                {**common, "id": "nat", "port": 443, "mode": "full_nat",
                 "backends": [{"ip": f"10.0.0.{last}", "port": 8443} for last in ENDS]},
            ],
        }))  # fmt: skip

    def log_text(self) -> str:
        return self.errors.read_text()

    def status(self) -> dict:
        return read_status(socket_path(self.folder, self.id))

    def up(self, service: int = 0) -> set[int]:
        """Return the last bytes of the back ends that are up."""
        ends = self.status()["balancer"]["services"][service]["back_ends"]
        return {int(end["ip"].rsplit(".")[-1]) for end in ends if end["up"]}

    def until(self, true) -> None:
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


@pytest.fixture
def site(tmp_path):
    found = Site(tmp_path)
    yield found
    found.close()


@pytest.fixture(params=["af-xdp", "af-packet"])
def running(request, site, tmp_path):
    found = Running(site, tmp_path, request.param)
    yield found
    found.close()


def test_real_clients_reach_real_servers_and_a_dead_one_is_left_out(running, site):
    running.until(lambda: running.up() == running.up(1) == set(ENDS))
    for port in (80, 443):
        replies = [site.curl(port=port) for _ in range(30)]
        assert [reply.stderr for reply in replies if reply.returncode] == []
        assert len({reply.stdout for reply in replies}) >= 2
    big = site.curl("-o", "/dev/null", "-w", "%{size_download}", port=443, path="big")
    assert big.stdout == "4000000"
    site.stop_nginx(52)
    running.until(lambda: running.up() == running.up(1) == {51, 53})
    replies = [site.curl(port=port) for port in (80, 443) for _ in range(20)]
    assert {reply.stdout for reply in replies} <= {"51\n", "53\n"}
    site.start_nginx(52)
    running.until(lambda: running.up() == set(ENDS))
    for last in ENDS:
        site.stop_nginx(last)
    running.until(lambda: running.up() == running.up(1) == set())
    for port in (80, 443):
        refused = site.curl("-w", "%{time_total}", port=port)
        assert refused.returncode == 7, refused.stderr
    assert "new connections are refused" in running.log_text()
    found = running.status()
    assert found["balancer"]["refused"] >= 2
    running.until(lambda: (now := running.status())["received"] == now["ended"])


def test_downloads_go_on_when_one_of_two_balancers_is_killed(site, tmp_path):
    first = Running(site, tmp_path, "af-xdp", number=1, paired=True)
    try:
        second = Running(site, tmp_path, "af-xdp", number=2, paired=True)
    except BaseException:
        first.close()
        raise
    try:
        for each in (first, second):
            each.until(lambda each=each: each.up() == each.up(1) == set(ENDS))
        first.until(lambda: first.status()["pair"]["partner_has_copy"])
        downloads = [
            site.client.start("curl", "-sS", "--max-time", "60", "--limit-rate", "1M", "-o", "/dev/null",
                              f"http://{VIP}:{port}/big")
            for port in (80, 80, 80, 80, 443, 443, 443)
        ]  # fmt: skip
        first.until(lambda: first.status()["tables"]["connections_established"]["used"] >= 10)
        for each in (first, second):  # from now on the hash alone would lead to other back ends
            each.draining = (51,)
            each.write()
            each.process.send_signal(signal.SIGHUP)
            each.until(lambda each=each: "is served as read anew" in each.log_text())
        second.until(lambda: second.status()["tables"]["connections_established"]["used"] >= 10)
        os.kill(first.status()["pid"], signal.SIGKILL)
        first.process.kill()
        assert [download.wait(60) for download in downloads] == [0] * 7
        assert site.curl().returncode == 0
        assert set(second.status()["pair"]["serves"]) == {first.id, second.id}
    finally:
        first.close()
        second.close()


def test_a_drained_server_finishes_its_downloads(running, site):
    running.until(lambda: running.up() == set(ENDS))
    downloads = [
        site.client.start("curl", "-sS", "--max-time", "60", "--limit-rate", "1M", "-o", "/dev/null",
                          f"http://{VIP}/big")
        for _ in range(6)
    ]  # fmt: skip
    time.sleep(0.5)
    running.draining = (51,)
    running.write()
    running.process.send_signal(signal.SIGHUP)
    running.until(lambda: "is served as read anew" in running.log_text())
    assert {site.curl().stdout for _ in range(20)} == {"52\n", "53\n"}
    assert [download.wait(60) for download in downloads] == [0] * 6
