"""A private etcd of one or three members on free ports of loopback, with its data in a directory of the test."""

import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import grpc

from heddle.controller.store.etcd.proto import etcd_pb2 as pb
from heddle.controller.store.etcd.proto import etcd_pb2_grpc as rpc
from heddle.foundation.channel import channel_to
from heddle.foundation.tls_files import Tls, TlsFiles
from tests.support.free_ports import free_ports

_LOG = logging.getLogger(__name__)
PROGRAM = shutil.which("etcd") or "/usr/bin/etcd"
START_TIMEOUT_S = 60.0
QUICK_ELECTIONS = ("--heartbeat-interval=50", "--election-timeout=500")
"""What docs/cluster.md advises for members on a local network, in milliseconds: half of etcd's defaults."""


class Host(NamedTuple):
    """Where a program listens, and the command prefix that runs it there."""

    address: str
    entrance: tuple[str, ...] = ()


LOOPBACK = Host("127.0.0.1")


class EtcdCluster:
    """The members; each can be killed, stopped and started again on its ports."""

    def __init__(
        self, folder: Path, members: int = 1, options: tuple[str, ...] = (), tls: TlsFiles | None = None,
        hosts: Sequence[Host] = (),
    ) -> None:  # fmt: skip
        """Start it; with `tls` by mutual TLS, between members too; with `hosts` each member on one of them."""
        ports = free_ports(2 * members)
        self._hosts = hosts or [LOOPBACK] * members
        names = [host.address for host in self._hosts]
        self._scheme = "http" if tls is None else "https"
        self.addresses = [f"{name}:{port}" for name, port in zip(names, ports[:members], strict=True)]
        self.endpoints = self.addresses if tls is None else [f"https://{each}" for each in self.addresses]
        peers = zip(names, ports[members:], strict=True)
        self._peers = [f"{self._scheme}://{name}:{port}" for name, port in peers]
        self._folder, self._options, self._tls = folder, options + _tls_options(tls), tls
        self.processes: list[subprocess.Popen[bytes] | None] = [None] * members
        for number in range(members):
            self.start(number)
        self.wait_for_leader()

    def start(self, number: int) -> None:
        name = f"m{number}"
        client = f"{self._scheme}://{self.addresses[number]}"
        command = [*self._hosts[number].entrance, PROGRAM, "--name", name, "--data-dir", str(self._folder / name)]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", self._peers[number], "--initial-advertise-peer-urls", self._peers[number]]
        command += ["--initial-cluster", ",".join(f"m{each}={url}" for each, url in enumerate(self._peers))]
        command += ["--initial-cluster-token", str(self._folder), "--logger", "zap", *self._options]
        with (self._folder / f"{name}.log").open("ab") as log:
            self.processes[number] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, number: int) -> None:
        process = self.processes[number]
        if process is not None:
            process.kill()
            process.wait(START_TIMEOUT_S)
            self.processes[number] = None

    def pause(self, number: int) -> None:
        """Stop a member; return when all of its threads stand still, which takes a while on a busy machine."""
        pid = self._signal(number, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self, number: int) -> None:
        self._signal(number, signal.SIGCONT)

    def _signal(self, number: int, wanted: signal.Signals) -> int:
        process = self.processes[number]
        assert process is not None
        os.kill(process.pid, wanted)
        return process.pid

    def wait_for_leader(self) -> None:
        """Wait until a linearizable read through every running member has succeeded."""
        end = time.monotonic() + START_TIMEOUT_S
        tls = Tls(self._tls, _LOG.error) if self._tls is not None else None
        for number, address in enumerate(self.addresses):
            while self.processes[number] is not None:
                with channel_to(address, (), tls) as channel:
                    try:
                        rpc.KVStub(channel).Range(pb.RangeRequest(key=b"0"), timeout=2)
                        break
                    except grpc.RpcError:
                        assert time.monotonic() < end, "etcd has no leader"
                        time.sleep(0.05)

    def leader(self) -> int:
        """Return the number of the member that leads, by its own metrics; raises LookupError where none does."""
        import httpx

        for number, address in enumerate(self.addresses):
            if self.processes[number] is None:
                continue
            try:
                text = httpx.get(f"http://{address}/metrics", timeout=1).text
            except httpx.HTTPError:
                continue
            if "\netcd_server_is_leader 1" in text:
                return number
        raise LookupError("no member leads")

    def close(self) -> None:
        for number in range(len(self.processes)):
            self.kill(number)


def _tls_options(files: TlsFiles | None) -> tuple[str, ...]:
    if files is None:
        return ()
    named = [("cert-file", files.certificate), ("key-file", files.key), ("trusted-ca-file", files.ca)]
    options = [f"--{side}{name}={path}" for side in ("", "peer-") for name, path in named]
    return (*options, "--client-cert-auth", "--peer-client-cert-auth")


@contextmanager
def etcd(
    folder: Path, members: int = 1, options: tuple[str, ...] = (), tls: TlsFiles | None = None,
    hosts: Sequence[Host] = (),
) -> Iterator[EtcdCluster]:  # fmt: skip
    """Run a cluster while the context lasts."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = EtcdCluster(folder, members, options, tls, hosts)
    try:
        yield cluster
    finally:
        cluster.close()
