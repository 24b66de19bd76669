"""Clients of several controllers: each writes and reads VPCs that all share, and records every call."""

import random
import threading
import time
from collections.abc import Callable, Sequence

import grpc

from heddle.foundation.leader_address import LeaderAddress
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.support.clusters.linearizable import Call, Kind

CALL_S = 0.6
"""Short: the address of a stopped leader is tried again until another leads."""
NAMES = 12
TIMEOUT_S = 60.0
UNKNOWN = (
    grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
)  # fmt: skip
"""After these a call may have happened, or may happen later."""


class ClusterClient:
    """One client; it calls the leader, or each controller in turn. `history` grows while it runs."""

    def __init__(self, number: int, seed: int, addresses: str) -> None:
        self.history: list[Call] = []
        self.acknowledged_s: list[tuple[float, float]] = []
        """When each acknowledged write was called and returned."""
        self.faults: list[BaseException] = []
        self._drawn = random.Random(f"{seed} {number}")
        self._address = LeaderAddress(addresses)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"client {number}", daemon=True)
        self._channels: dict[str, grpc.Channel] = {}
        self._thread.start()

    def end(self) -> None:
        self._ending.set()
        self._thread.join(60)
        for channel in self._channels.values():
            channel.close()

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self._step()
            except BaseException as fault:
                self.faults.append(fault)
                return

    def _step(self) -> None:
        name = f"v{self._drawn.randrange(NAMES)}"
        kind = self._drawn.choice((Kind.PUT, Kind.DELETE, Kind.READ, Kind.READ))
        if kind is Kind.PUT:
            wanted = pb.Vpc(id=name, network="business", vni=1_000 + int(name[1:]))
            wanted.subnets.add(cidr="10.0.0.0/24", gateway_ip="10.0.0.1")
            self._call(kind, name, lambda vpcs: vpcs.ApplyVpc(wanted, timeout=CALL_S))
        elif kind is Kind.DELETE:
            self._call(kind, name, lambda vpcs: vpcs.DeleteVpc(pb.DeleteVpcRequest(id=name), timeout=CALL_S))
        else:
            self._call(kind, name, lambda vpcs: vpcs.ListVpcs(pb.ListVpcsRequest(), timeout=CALL_S))

    def _call(self, kind: Kind, name: str, call: Callable[[rpc.VpcServiceStub], object]) -> None:
        called_s = time.monotonic()
        try:
            reply = call(rpc.VpcServiceStub(self._channel()))
            found = any(vpc.id == name for vpc in reply.vpcs) if isinstance(reply, pb.ListVpcsReply) else True
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                found = False
            elif error.code() in UNKNOWN:
                self.history.append(Call(name, kind, called_s))
                self._address.failed(error.trailing_metadata())
                time.sleep(0.02)
                return
            else:
                raise
        returned_s = time.monotonic()
        self.history.append(Call(name, kind, called_s, returned_s, None if kind is Kind.PUT else found))
        if kind is not Kind.READ:
            self.acknowledged_s.append((called_s, returned_s))
        time.sleep(0.01)

    def _channel(self) -> grpc.Channel:
        address = self._address.current
        if address not in self._channels:
            options = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.min_reconnect_backoff_ms", 50),
                       ("grpc.max_reconnect_backoff_ms", 200)]  # fmt: skip
            self._channels[address] = grpc.insecure_channel(address, options=options)
        return self._channels[address]


def wait_for_write(clients: Sequence[ClusterClient], began_s: float) -> float:
    """Return how long after `began_s` a write is acknowledged that was called later."""
    end = time.monotonic() + TIMEOUT_S
    while True:
        returned = [back for client in clients for call, back in client.acknowledged_s[-3:] if call > began_s + 0.05]
        if returned:
            return min(returned) - began_s
        assert time.monotonic() < end, [client.faults for client in clients]
        time.sleep(0.01)
