"""Clients that submit and release jobs and VPCs, and record what was acknowledged to them."""

import random
import threading
from collections.abc import Callable
from enum import Enum
from typing import Any

import grpc

from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

CALL_S = 30.0
FAILED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN)
"""The statuses of calls that the end of the controller cuts off."""


class Known(Enum):
    """What a client knows of an object: from a reply, or nothing, because the controller died during a call."""

    THERE = "there"
    GONE = "gone"
    EITHER = "either"


class Client:
    """One client, with objects that no other has; `known` by (kind, id), `wanted` the request of each."""

    def __init__(self, number: int, seed: int, address: str, hosts: int) -> None:
        self.known: dict[tuple[str, str], Known] = {}
        self.wanted: dict[tuple[str, str], Any] = {}
        self.acknowledged = 0
        self.faults: list[BaseException] = []
        self._number, self._hosts, self._made = number, hosts, 0
        self._drawn = random.Random(seed * 1_000 + number)
        self._address = address
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to call."""
        self._ending.clear()
        self._thread = threading.Thread(target=self._run, name=f"client {self._number}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop, after the call under way."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(CALL_S)

    def _run(self) -> None:
        with grpc.insecure_channel(self._address) as channel:
            jobs, vpcs = rpc.JobServiceStub(channel), rpc.VpcServiceStub(channel)
            while not self._ending.is_set():
                try:
                    self._step(jobs, vpcs)
                except grpc.RpcError as error:
                    if error.code() not in FAILED:
                        self.faults.append(error)
                    return
                except BaseException as fault:
                    self.faults.append(fault)
                    return

    def _step(self, jobs: rpc.JobServiceStub, vpcs: rpc.VpcServiceStub) -> None:
        there = [key for key, known in self.known.items() if known is Known.THERE]
        if len(there) > 6 or (there and self._drawn.random() < 0.4):
            key = self._drawn.choice(there)
            if key[0] == "job":
                self._call(key, Known.GONE, lambda: jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=key[1])))
            else:
                self._call(key, Known.GONE, lambda: vpcs.DeleteVpc(pb.DeleteVpcRequest(id=key[1])))
            return
        self._made += 1
        name = f"c{self._number}-{self._made}"
        if self._drawn.random() < 0.6:
            job = self._job(name)
            self.wanted["job", name] = job
            self._call(("job", name), Known.THERE, lambda: jobs.SubmitJob(job, timeout=CALL_S))
        else:
            vpc = pb.Vpc(id=name, network="business", vni=self._number * 100_000 + self._made)
            vpc.subnets.add(cidr="10.0.0.0/24", gateway_ip="10.0.0.1")
            self.wanted["vpc", name] = vpc
            self._call(("vpc", name), Known.THERE, lambda: vpcs.ApplyVpc(vpc, timeout=CALL_S))

    def _call(self, key: tuple[str, str], after: Known, call: Callable[[], object]) -> None:
        self.known[key] = Known.EITHER
        call()
        self.known[key] = after
        self.acknowledged += 1

    def _job(self, name: str) -> pb.SubmitJobRequest:
        source, target = self._drawn.sample(range(self._hosts), 2)
        collective = pb.Collective(kind="SEND_RECV", bytes=1_000_000)
        collective.pairs.add(src_rank=0, dst_rank=1)
        return pb.SubmitJobRequest(
            job_id=name,
            ranks=[f"h{source + 1}-n0", f"h{target + 1}-n0"],
            collectives=[collective],
            steering=self._drawn.choice(("SOURCE_PORT", "PIN")),
            lease_ms=3_600_000,
        )
