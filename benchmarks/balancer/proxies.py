"""Run one proxy at a time between a client and its back ends at a site: ours, HAProxy, nginx, Linux, or none."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.support.packets.namespaces import Namespace
from tests.support.processes.balancer_processes import ENDS, LB, PROBER, VIP, Running, Site, vtep

NGINX_STREAM = "/usr/lib/nginx/modules/ngx_stream_module.so"
START_S = 20
ADVERTISED_MSS = 1410
"""That of the VPC's MTU, 1,450: all segments have one size."""


class Place(NamedTuple):
    """Where a proxy listens, and has its servers."""

    name: str
    own: str
    prefix: str
    in_vpc: bool


PLACES = (Place("vpc", "10.0.0.250", "10.0.0.", True), Place("underlay", LB, "192.0.2.", False))
"""Inside the VPC, as a VM of it would, through the VXLAN of its host; and with neither tenants nor tunnels."""


@dataclass(frozen=True, slots=True)
class Route:
    """How a client reaches a back end, and the processes in between."""

    name: str
    url: str
    in_vpc: bool = False
    """Through VXLAN; else by addresses of the underlay."""
    pids: tuple[int, ...] = ()


Opener = Callable[[Site, Path], AbstractContextManager[list[Route]]]


@contextmanager
def direct(site: Site, folder: Path) -> Iterator[list[Route]]:
    """Reach a back end without anything in between: what clients and servers cost themselves."""
    yield [
        Route("nothing, vpc", f"http://10.0.0.{ENDS[0]}/", in_vpc=True),
        Route("nothing, underlay", f"http://{vtep(ENDS[0])}/"),
    ]


def ours(backend: str) -> Opener:
    """Return our balancer on one kind of port."""

    @contextmanager
    def opened(site: Site, folder: Path) -> Iterator[list[Route]]:
        running = Running(site, folder, backend)
        try:
            running.until(lambda: running.up() == running.up(1) == set(ENDS))
            pids = (running.process.pid, *_descendants(running.process.pid))
            yield [
                Route(f"heddle {backend} {mode}", f"http://{VIP}:{port}/", in_vpc=True, pids=pids)
                for mode, port in (("direct return", 80), ("full NAT", 443))
            ]
        finally:
            running.close()

    return opened


def haproxy(*options: str) -> Opener:
    """Return HAProxy in TCP mode with one thread."""

    @contextmanager
    def opened(site: Site, folder: Path) -> Iterator[list[Route]]:
        lines = "".join(f"  option {option}\n" for option in options)
        services = "".join(
            f"listen {place.name}\n  bind {place.own}:80\n  balance roundrobin\n"
            + "".join(f"  server s{last} {place.prefix}{last}:80\n" for last in ENDS)
            for place in PLACES
        )
        (folder / "haproxy.cfg").write_text(
            "global\n  nbthread 1\n  maxconn 4000\ndefaults\n  mode tcp\n  timeout connect 5s\n"
            f"  timeout client 60s\n  timeout server 60s\n{lines}{services}"
        )
        with _proxy(site, "haproxy", "-db", "-f", str(folder / "haproxy.cfg")) as pids:
            yield _routes(" ".join(("HAProxy", *options)), pids)

    return opened


@contextmanager
def nginx_stream(site: Site, folder: Path) -> Iterator[list[Route]]:
    """Run nginx as a TCP proxy with one process."""
    services = "".join(
        f"upstream {place.name} {{ {' '.join(f'server {place.prefix}{last}:80;' for last in ENDS)} }}\n"
        f"server {{ listen {place.own}:80; proxy_pass {place.name}; }}\n"
        for place in PLACES
    )
    (folder / "stream.conf").write_text(
        f"load_module {NGINX_STREAM}; daemon off; master_process off; user root; pid {folder}/stream.pid;\n"
        f"error_log {folder}/stream.log; events {{ worker_connections 4096; }}\nstream {{\n{services}}}\n"
    )
    with _proxy(site, "nginx", "-p", str(folder), "-c", str(folder / "stream.conf")) as pids:
        yield _routes("nginx stream", pids)


@contextmanager
def nftables(site: Site, folder: Path) -> Iterator[list[Route]]:
    """Let the kernel translate both addresses: by a hash of the client to a back end, and the balancer as source."""
    host = site.hosts[0]
    rules = "".join(
        f"  ip daddr {place.own} tcp dport 80 dnat to jhash ip saddr . tcp sport mod {len(ENDS)} map "
        f"{{ {', '.join(f'{n} : {place.prefix}{last}' for n, last in enumerate(ENDS))} }}\n"
        for place in PLACES
    )
    with _addressed(site):
        settings = ("ip_forward=1", *(f"conf.{name}.send_redirects=0" for name in ("all", "u0", "vx")))
        for setting in settings:
            host.run("sysctl", "-qw", f"net.ipv4.{setting}")
        host.run("nft", "-f", "-", given=(
            f"table ip lb {{\n chain pre {{\n  type nat hook prerouting priority -100;\n{rules} }}\n"
            " chain post {\n  type nat hook postrouting priority 100;\n  tcp dport 80 masquerade\n }\n}\n"
        ))  # fmt: skip
        try:
            yield _routes("Linux nftables", ())
        finally:
            host.run("nft", "delete", "table", "ip", "lb")


def _routes(name: str, pids: tuple[int, ...]) -> list[Route]:
    return [Route(f"{name}, {place.name}", f"http://{place.own}/", in_vpc=place.in_vpc, pids=pids) for place in PLACES]


def available() -> tuple[dict[str, Opener], list[str]]:
    """Return the openers of all that is installed, and a line for each that is not."""
    found: dict[str, Opener] = {
        "direct": direct, "af-xdp": ours("af-xdp"), "af-packet": ours("af-packet"),
    }  # fmt: skip
    absent = []
    peers: tuple[tuple[str, bool, Opener], ...] = (
        ("haproxy", _program("haproxy") is not None, haproxy()),
        ("haproxy, splice", _program("haproxy") is not None, haproxy("splice-auto")),
        ("nginx stream", Path(NGINX_STREAM).exists(), nginx_stream),
        ("nftables", _program("nft") is not None, nftables),
    )
    for name, is_there, opener in peers:
        if is_there:
            found[name] = opener
        else:
            absent.append(f"{name} not found: its row is left out")
    if subprocess.run(("modprobe", "ip_vs"), capture_output=True, check=False).returncode:
        absent.append("this kernel has no IPVS: its row is left out")
    else:
        absent.append("this kernel has IPVS, which is not measured: nftables stands for the kernel")
    return found, absent


def advertise_mss(space: Namespace) -> None:
    """Limit the segments that a host gets on the underlay."""
    space.run("ip", "route", "replace", "192.0.2.0/24", "dev", "u0", "advmss", str(ADVERTISED_MSS))


@contextmanager
def _addressed(site: Site) -> Iterator[None]:
    """Give the balancer's port its address, as a host of the underlay."""
    host = site.hosts[0]
    host.run("ip", "addr", "add", f"{LB}/24", "dev", "u0")
    host.run("ip", "route", "del", "192.0.2.0/24", "dev", "p0")
    advertise_mss(host)
    try:
        yield
    finally:
        host.run("ip", "addr", "del", f"{LB}/24", "dev", "u0")
        host.run("ip", "route", "add", "192.0.2.0/24", "dev", "p0", "src", PROBER)


@contextmanager
def _proxy(site: Site, program: str, *options: str) -> Iterator[tuple[int, ...]]:
    with _addressed(site):
        process = site.hosts[0].start(_program(program) or program, *options)
        try:
            deadline = time.monotonic() + START_S
            while site.client.run("curl", "-s", "-o", "/dev/null", f"http://{LB}/", check=False).returncode:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{program} does not serve")
                time.sleep(0.05)
            yield (process.pid,)
        finally:
            process.terminate()
            process.wait(20)


def _program(name: str) -> str | None:
    return shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")


def _descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and those that these started."""
    done = subprocess.run(("ps", "-eo", "pid=,ppid="), capture_output=True, text=True, check=True)
    rows = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    found = [pid]
    for each in found:
        found += [child for child, parent in rows if parent == each]
    return found[1:]
