"""A program that starts a lab, prints its id, and runs a long flow until it is terminated."""

import signal
import sys

from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import FlowRequest
from heddle.mininet_topos.queues.settings import QueueSettings
from tests.support.fabrics.small_fabrics import spine_leaf


def main() -> None:
    """Start a lab, print its id, and run a flow that takes minutes."""
    # A shell starts background commands with SIGINT ignored, nohup with SIGHUP ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    queues = QueueSettings() if "queues" in sys.argv else None
    with Lab(spine_leaf(2, 2, 2), queues=queues) as lab:
        lab.ecmp.load()
        request = FlowRequest(
            flow_id="long",
            src_nic="h1-n0",
            dst_nic="h2-n0",
            udp_source_port=0xC001,
            reverse_udp_source_port=0xC001,
            rate_bps=10_000_000,
            size_bytes=10**9,
        )
        announced = False

        def announce(_seconds: float) -> None:
            nonlocal announced
            if not announced:
                print(lab.id, flush=True)
            announced = True

        lab.run_flows([request], timeout_s=600, on_progress=announce)


if __name__ == "__main__":
    main()
