"""The UDP source ports that Linux chooses itself."""

from hypothesis import given
from hypothesis import strategies as st

from heddle.foundation.kernel_port import cm_source_port, kernel_source_port

ports = st.integers(1, 0xFFFF)


def test_without_the_cm_the_port_is_that_of_the_queue_pair_numbers():
    # from a C program with 64-bit unsigned integers and the kernel's masks 0x03fff and 0xfc000
    known = [(0x11, 0x12, 49458), (0x1234, 0x77, 62989), (0xABCDEF, 0x123456, 50120), (0xFFFFFF, 0xFFFFFF, 65313)]
    assert [kernel_source_port(own, peer) for own, peer, _ in known] == [port for *_, port in known]
    assert [kernel_source_port(peer, own) for own, peer, _ in known] == [port for *_, port in known]


def test_the_ports_are_those_that_a_real_kernel_sent_from():
    # tcpdump between two machines with soft RoCE (Linux 6.1.192): rping, and ib_write_bw with and without -R
    assert cm_source_port(42272, 18600) == 51097
    assert cm_source_port(34472, 18600) == 55042
    assert cm_source_port(34384, 18601) == 52315
    assert cm_source_port(54174, 18601) == 59628
    assert kernel_source_port(20, 20) == 49552


@given(ports, ports)
def test_with_the_cm_the_port_is_that_of_the_label_of_its_ports(active, service):
    bits = f"{31 * active + service:020b}"[-20:]  # the label
    high, low = int(bits[:6], 2), int(bits[6:], 2)
    wanted = int(f"11{low ^ high:014b}", 2)
    assert cm_source_port(active, service) == (0 if int(bits, 2) == 0 else wanted)


def test_a_label_of_zero_is_none():
    assert (33_825 * 31 + 1) & 0xFFFFF == 0
    assert cm_source_port(33_825, 1) == 0
    assert cm_source_port(33_825, 2) == 0xC001
