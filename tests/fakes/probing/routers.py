"""A fabric file's switches as hashing routers that reply to probes."""

import struct
from ipaddress import IPv4Address

from heddle.mininet_topos.routed.routes import Routes, Routing
from heddle.probing.probe import ROCE_PORT, Question
from heddle.v1 import heddle_pb2 as pb
from tests.fakes.probing.hashing_fabric import mixing


class ProbedFabric:
    """Routers with equal-cost routes; each hashes the five-tuple with a seed of its own."""

    def __init__(self, fabric, hashes=mixing):
        self._routes, self._hash = Routes(fabric, Routing.ROUTE), hashes
        self._leaf_of = {nic.ip: nic.port.switch for nic in fabric.nics}
        self.link_at = self._routes.link_at

    def reply(self, src_ip, question):
        """Return the address of the router where a probe expires; None where none replies from a port of the fabric."""
        switch, leaf, address = self._leaf_of[src_ip], self._leaf_of[question.dst_ip], None
        header = struct.pack("!IIBHHx", src_ip, question.dst_ip, 17, question.port, ROCE_PORT)
        for _ in range(question.ttl - 1):
            hops = self._routes.hops(switch, leaf) if switch != leaf else ()
            if not hops:
                return None
            address = hops[self._hash(header, sum(switch.encode()), len(hops))].address
            switch = self.link_at[address].partition(">")[2].rpartition(":")[0]
        return address

    def honest(self, order):
        """Return what an agent sees of an order."""
        src_ip, replies = int(IPv4Address(order.src_ip)), []
        for asked in order.questions:
            address = self.reply(src_ip, Question(int(IPv4Address(asked.dst_ip)), asked.port, asked.ttl))
            if address is not None:
                replies.append(pb.ProbeReply(question=asked, router_ip=str(IPv4Address(address))))
        return [pb.ProbeReplies(order_id=order.order_id, sent=len(order.questions), replies=replies)]
