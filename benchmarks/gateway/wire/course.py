"""The test topology: three network namespaces in a row, a generator, the device under test, and a counting sink.

    generator g0 --- in  device  out --- s0 sink
                                aside --- s1

A process holds each namespace; the namespace ends with it. Offloads are off, so frames are complete, with checksums.
"""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

FEATURES = ("tx", "rx", "sg", "tso", "gso", "gro")
INGRESS, EGRESS, ASIDE = "in", "out", "aside"
GENERATOR_MAC, INGRESS_MAC, EGRESS_MAC, SINK_MAC, SINK_OWN_MAC, ASIDE_MAC, SINK_OTHER_MAC = (
    f"02:00:00:00:00:{n:02x}" for n in range(1, 8)
)
"""No frame has the sink's own MAC, so that its kernel discards all frames at once; the device pays for that time."""
GENERATOR_IP, INGRESS_IP, EGRESS_IP, SINK_IP = "10.99.0.2", "10.99.0.1", "192.168.77.1", "192.168.77.2"


class Space:
    def __init__(self) -> None:
        mine = os.readlink("/proc/self/ns/net")
        words = ["unshare", "--net", "sh", "-c", "read _"]
        self._holder = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
        deadline = time.monotonic() + 10
        while os.readlink(f"/proc/{self._holder.pid}/ns/net") == mine:
            if self._holder.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("no network namespace: run as root")
            time.sleep(0.001)

    @property
    def path(self) -> str:
        return f"/proc/{self._holder.pid}/ns/net"

    @property
    def pid(self) -> int:
        return self._holder.pid

    @property
    def entrance(self) -> list[str]:
        return ["nsenter", f"--net={self.path}", "--"]

    def run(self, *words: str, check: bool = True) -> str:
        done = subprocess.run([*self.entrance, *words], capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def close(self) -> None:
        assert self._holder.stdin is not None
        self._holder.stdin.close()
        self._holder.wait()


class Course:
    def __init__(self, mtu_bytes: int = 1500) -> None:
        self.mtu_bytes = mtu_bytes
        """MTU of the device's ingress; its egress has room for a tunnel's headers."""
        self.generator, self.device, self.sink = Space(), Space(), Space()
        _pair(self.generator, "g0", GENERATOR_MAC, self.device, INGRESS, INGRESS_MAC, mtu_bytes)
        _pair(self.device, EGRESS, EGRESS_MAC, self.sink, "s0", SINK_OWN_MAC, mtu_bytes + 100)
        self.device.run("ip", "addr", "add", f"{INGRESS_IP}/24", "dev", INGRESS)
        self.device.run("ip", "addr", "add", f"{EGRESS_IP}/24", "dev", EGRESS)
        self.device.run("ip", "neigh", "replace", SINK_IP, "lladdr", SINK_MAC, "dev", EGRESS)
        _pair(self.device, ASIDE, ASIDE_MAC, self.sink, "s1", SINK_OTHER_MAC, mtu_bytes)
        self._figures = Path(f"/proc/{self.sink.pid}/net/dev").open("rb", buffering=0)  # noqa: SIM115 - until `close`

    def received(self) -> int:
        """Return the number of frames that the sink received; takes some microseconds, without a child process."""
        self._figures.seek(0)
        text = self._figures.read(4096)
        at = text.find(b" s0:")
        if at < 0:
            raise RuntimeError("the sink has no port s0")
        return int(text[at + 4 :].split(maxsplit=2)[1])

    def close(self) -> None:
        self._figures.close()
        for space in (self.generator, self.device, self.sink):
            space.close()

    def __enter__(self) -> "Course":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _pair(a: Space, a_name: str, a_mac: str, b: Space, b_name: str, b_mac: str, mtu_bytes: int) -> None:
    mtu = ["mtu", str(mtu_bytes)]
    a.run("ip", "link", "add", a_name, *mtu, "address", a_mac, "type", "veth",
          "peer", "name", b_name, *mtu, "address", b_mac, "netns", str(b.pid))  # fmt: skip
    for space, name in ((a, a_name), (b, b_name)):
        space.run("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6", check=False)  # no MLD, no RS
        space.run("ethtool", "-K", name, *(word for feature in FEATURES for word in (feature, "off")))
        space.run("ip", "link", "set", name, "up")


@contextmanager
def on_core(cpu: int) -> Iterator[None]:
    """Pin this thread to one core for the block."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def pinned(cpu: int, words: Sequence[str]) -> list[str]:
    return ["taskset", "-c", str(cpu), *words]
