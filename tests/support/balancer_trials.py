"""What is done to a balancer under real traffic: changes of its back ends, a SYN flood, back ends that die."""

import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

from tests.support.packets.namespaces import Namespace
from tests.support.processes.balancer_processes import ENDS, LB, VIP, VNI, Running

_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
_ERRORS = re.compile(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)")


@dataclass(frozen=True, slots=True)
class Wrk:
    """What wrk reported."""

    requests: int
    errors: int
    """Failed connects, reads and writes, timeouts, and replies other than 2xx and 3xx."""
    p99_ms: float
    seconds: float


def wrk_result(process: "subprocess.Popen[str]", timeout_s: float = 180) -> Wrk:
    """Wait for wrk and return its figures."""
    text, _ = process.communicate(timeout=timeout_s)
    done = re.search(r"(\d+) requests in ([\d.]+)(m|s)", text)
    p99 = re.search(r"99%\s+([\d.]+)(us|ms|s)", text)
    assert done, text
    assert p99, text
    errors = _ERRORS.search(text)
    wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    return Wrk(
        requests=int(done[1]), p99_ms=float(p99[1]) * _MS[p99[2]],
        errors=sum(map(int, errors.groups() if errors else ())) + (int(wrong[1]) if wrong else 0),
        seconds=float(done[2]) * (60 if done[3] == "m" else 1),
    )  # fmt: skip


def churn(running: Running, seconds: float, every_s: float = 1.0) -> int:
    """Change the back ends every second, never one with connections but by draining or weights; return how often."""
    begun, done = time.monotonic(), 0
    while time.monotonic() - begun < seconds:
        step = done % 6
        running.draining = (ENDS[0],) if step in (0, 1, 2) else (ENDS[2],) if step == 4 else ()
        running.weights = {ENDS[1]: 1 + step}
        running.serving = (*ENDS, 10) if step in (1, 4) else ENDS  # 10 serves nothing, so it is down
        running.reload()
        done += 1
        time.sleep(max(0.0, begun + done * every_s - time.monotonic()))
    return done


def start_flood(space: Namespace, to_mac: str, sources: int, rate: float, seconds: float) -> "subprocess.Popen[str]":
    """Start a flood; it sends once this returns."""
    words = ("u0", to_mac, LB, str(VNI), VIP, "80", str(sources), str(rate), str(seconds))
    process = subprocess.Popen(
        [*space.entrance, sys.executable, "-m", "tests.support.packets.syn_flood", *words],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def end_flood(process: "subprocess.Popen[str]", seconds: float) -> int:
    """Wait for the end of a flood; return how many SYNs were sent."""
    text, _ = process.communicate(timeout=seconds + 60)
    return int(text)


def out_after_s(running: Running, last: int, *, hangs: bool) -> float:
    """Kill or stop a back end's server; return the seconds until the slots lead new connections past it."""
    site, before = running.site, running.status()["balancer"]["slots_written"]
    begun = time.monotonic()
    site.nginx[last].send_signal(signal.SIGSTOP if hangs else signal.SIGKILL)
    while last in running.up() or running.status()["balancer"]["slots_written"] == before:
        assert time.monotonic() - begun < 30, running.log_text()
        time.sleep(0.005)
    took = time.monotonic() - begun
    if hangs:
        site.nginx[last].send_signal(signal.SIGCONT)
    else:
        site.nginx[last].wait(10)
        site.start_nginx(last)
    running.until(lambda: running.up() == running.up(1) == set(ENDS))
    return took
