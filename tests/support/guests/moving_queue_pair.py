"""A program of a guest that writes by one queue pair, and moves it to the ports that WatchJob publishes meanwhile.

    python -m tests.support.guests.moving_queue_pair SERVER NIC [PEER]

It connects as `heddle exec` starts it: the port shim sets the first port. One end listens, the other names it as PEER
and writes until the file `stop` exists. Both follow the plan, since the listener's queue pair sends the ACKs. Prints
JSON lines: what a move of a queue pair in state RTS gives, each move, and in the end how many writes have completed.
"""

# mypy: disable-error-code="import-not-found"

import json
import os
import queue
import socket
import sys
import threading
import time
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

sys.path.append("/usr/lib/python3/dist-packages")  # pyverbs is Debian's, which this environment does not have
import pyverbs.enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

DEVICE, PORT, GID_INDEX = "rxe0", 1, 1
TCP_PORT = 18_600
SIZE_BYTES = 1_024
PAUSE_S = 0.02
PATIENCE_S = 300.0
STOP = Path("stop")


class End(NamedTuple):
    """What an end needs to know of the other, by TCP."""

    queue_pair: int
    gid: str
    address: int
    key: int


class Endpoint:
    """A reliable connection on soft RoCE; its memory takes the peer's writes."""

    def __init__(self) -> None:
        self._context = Context(name=DEVICE)
        self._domain = PD(self._context)
        self._completions = CQ(self._context, 16)
        access = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
        self._memory = MR(self._domain, SIZE_BYTES, access)
        room = QPCap(max_send_wr=4, max_recv_wr=1)
        self._pair = QP(
            self._domain,
            QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self._completions, rcq=self._completions, cap=room),
        )
        gid = str(self._context.query_gid(PORT, GID_INDEX))
        self.own = End(self._pair.qp_num, gid, self._memory.buf, self._memory.rkey)
        self._peer = self.own

    def connect(self, peer: End) -> None:
        """Connect the queue pair; the port shim adds the planned port to the address."""
        self._peer = peer
        attributes = QPAttr(port_num=PORT)
        attributes.qp_access_flags = e.IBV_ACCESS_REMOTE_WRITE
        attributes.path_mtu, attributes.dest_qp_num = e.IBV_MTU_1024, peer.queue_pair
        attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1
        attributes.timeout, attributes.retry_cnt, attributes.rnr_retry, attributes.min_rnr_timer = 18, 7, 7, 12
        attributes.ah_attr = self._address(0)
        self._pair.to_rts(attributes)

    def write(self) -> None:
        """Write to the peer and wait for the completion; raises RuntimeError where it failed."""
        work = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(self._memory.buf, SIZE_BYTES, self._memory.lkey)])
        work.set_wr_rdma(self._peer.key, self._peer.address)
        self._pair.post_send(work)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            count, found = self._completions.poll()
            if count:
                if found[0].status != e.IBV_WC_SUCCESS:
                    raise RuntimeError(f"completion with status {found[0].status}")
                return
        raise RuntimeError(f"no completion within {PATIENCE_S:g} s")

    def move_at_once(self, port: int) -> None:
        """Change the address while the queue pair sends (RTS); raises PyverbsRDMAError where the provider refuses."""
        self._modify(e.IBV_QPS_RTS, port)

    def move_drained(self, port: int) -> None:
        """Change the address while the send queue is drained (SQD); raises PyverbsRDMAError."""
        self._modify(e.IBV_QPS_SQD)
        self._modify(e.IBV_QPS_SQD, port)
        self._modify(e.IBV_QPS_RTS)

    def _modify(self, state: int, port: int | None = None) -> None:
        attributes, mask = QPAttr(), e.IBV_QP_STATE
        attributes.qp_state = state
        if port is not None:
            attributes.ah_attr = self._address(port)
            mask |= e.IBV_QP_AV
        self._pair.modify(attributes, mask)

    def _address(self, port: int) -> AHAttr:
        """Return the peer's address with the flow label of a source port, 0: without one."""
        gid = GID(IPv6Address(self._peer.gid).exploded)
        label = (port & 0x3FFF or 0x4001) if port else 0
        route = GlobalRoute(dgid=gid, sgid_index=GID_INDEX, flow_label=label, hop_limit=64)
        return AHAttr(gr=route, is_global=1, port_num=PORT)


def emit(**values: Any) -> None:
    """Print a line of JSON."""
    print(json.dumps(values), flush=True)


def watch(server: str, nic: str, ports: "queue.SimpleQueue[int]") -> None:
    """Put the port of the NIC's flow in every generation of the job's plan into a queue."""
    with grpc.insecure_channel(server) as channel:
        for plan in rpc.JobServiceStub(channel).WatchJob(pb.WatchJobRequest(job_id=os.environ["HEDDLE_JOB_ID"])):
            for port in [flow.udp_source_port for flow in plan.flows if flow.src_nic == nic]:
                ports.put(port)


def meet(peer: str | None) -> socket.socket:
    """Return a connection to the other end."""
    if peer is not None:
        return socket.create_connection((peer, TCP_PORT), PATIENCE_S)
    with socket.create_server(("", TCP_PORT)) as listener:
        return listener.accept()[0]


def main(server: str, nic: str, peer: str | None = None) -> None:
    """Connect, and write or wait until `stop` exists."""
    ports: queue.SimpleQueue[int] = queue.SimpleQueue()
    threading.Thread(target=watch, args=(server, nic, ports), daemon=True).start()
    endpoint = Endpoint()
    with meet(peer) as connection, connection.makefile() as lines:  # a file of both ways discards what it has read
        connection.sendall(json.dumps(endpoint.own).encode() + b"\n")
        endpoint.connect(End(*json.loads(lines.readline())))
        connection.sendall(b"connected\n")
        lines.readline()
        run(endpoint, ports, writes=peer is not None)


def run(endpoint: Endpoint, ports: "queue.SimpleQueue[int]", *, writes: bool) -> None:
    """Write, and move the queue pair to each new port, until `stop` exists."""
    current, written = ports.get(timeout=PATIENCE_S), 0
    emit(port=current)
    try:
        endpoint.move_at_once(current)
        emit(at_once="moved")
    except PyverbsRDMAError as refused:
        emit(at_once=str(refused))
    while not STOP.exists():
        if writes:
            endpoint.write()
            written += 1
        if not ports.empty() and (port := ports.get()) != current:
            endpoint.move_drained(port)
            emit(moved=port, written=written)
            current = port
        time.sleep(PAUSE_S)
    emit(written=written)


if __name__ == "__main__":
    main(*sys.argv[1:])
