from ipaddress import IPv4Address, IPv6Address

from heddle.programs.console.launch.planned_ports import PlannedPorts
from heddle.v1 import heddle_pb2 as pb

ADDRESSES = {"a": 0x0A000001, "b": 0x0A000002, "c": 0x0A000003}


def gid(nic):
    return IPv6Address(f"::ffff:{IPv4Address(ADDRESSES[nic])}").packed


def flow(src, dst, port, queue_pair=0, collective=0, src_rank=0, dst_rank=1):
    return pb.FlowPlan(
        flow_id=f"j/{collective}/{src}-{dst}/{queue_pair}",
        src_nic=src,
        dst_nic=dst,
        udp_source_port=port,
        reverse_udp_source_port=port + 1000,
        queue_pair=queue_pair,
        collective=collective,
        src_rank=src_rank,
        dst_rank=dst_rank,
    )


def test_the_receiving_end_of_a_connection_gets_the_port_of_its_acks():
    ports = PlannedPorts(ADDRESSES, lambda flow: True)
    ports.update([flow("a", "b", 50_000)])
    assert ports.port(gid("a"), gid("b"), 7) == 50_000
    assert ports.port(gid("b"), gid("a"), 7) == 51_000


def test_flows_in_both_directions_have_ports_of_their_own():
    ports = PlannedPorts(ADDRESSES, lambda flow: True)
    ports.update([flow("a", "b", 50_000), flow("b", "a", 60_000)])
    assert (ports.port(gid("a"), gid("b"), 7), ports.port(gid("b"), gid("a"), 7)) == (50_000, 60_000)


def test_a_queue_pair_that_asks_again_gets_the_same_turn_and_the_newest_port_of_it():
    ports = PlannedPorts(ADDRESSES, lambda flow: True)
    ports.update([flow("a", "b", 50_001, queue_pair=1), flow("a", "b", 50_000)])
    assert [ports.port(gid("a"), gid("b"), number) for number in (7, 8, 7, 9)] == [50_000, 50_001, 50_000, 50_000]
    ports.update([flow("a", "b", 55_555)])
    assert ports.port(gid("a"), gid("b"), 7) == 55_555


def test_flows_of_other_ranks_of_a_shared_nic_and_addresses_outside_the_plan_have_no_port():
    ports = PlannedPorts(ADDRESSES, lambda flow: flow.src_rank == 0)
    ports.update([flow("a", "b", 50_000, src_rank=3)])
    assert ports.port(gid("a"), gid("b"), 7) == 0
    assert ports.port(gid("a"), gid("c"), 7) == 0
    assert ports.port(IPv6Address("fe80::1").packed, gid("b"), 7) == 0
