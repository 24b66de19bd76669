"""The benchmark beside the kernel reads what iperf prints."""

from heddle.benchmarks.gateway.beside_kernel import streams_of

TWO = """\
19700101000000,127.0.0.1,57714,127.0.0.1,25001,2,0.0-1.0,1908277308,15128608639
19700101000000,127.0.0.1,57708,127.0.0.1,25001,1,0.0-1.5,2116157500,16809993098
"""


def test_streams_are_added_over_the_time_of_the_longest():
    assert streams_of(TWO) == (4_024_434_808, 4_024_434_808 * 8e-9 / 1.5, 0.0)
