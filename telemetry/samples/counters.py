"""The counters of a sample and their columns in the window's arrays.

One row per port. Its cumulative counters are the port's own, then per priority those of its queues, then those of a NIC
under its driver's names, then those of its link. Gauges of queues have arrays of their own, which keep the newest value
only; so does what the PFC watchdog has discarded, whose packets are in `dropped_packets` too.
"""

PRIORITIES = 8

PORT_COUNTERS = ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets", "drops")
QUEUE_COUNTERS = (
    "ecn_marked_packets",
    "pfc_rx_frames",
    "pfc_tx_frames",
    "paused_ns",
    "packets",
    "bytes",
    "dropped_packets",
)
QUEUE_GAUGES = ("depth_bytes", "max_depth_bytes", "watchdog_dropped_packets", "watchdog_active")
# The mlx5 driver's names (linux, drivers/infiniband/hw/mlx5/counters.c and ethtool -S). Others are ignored and counted.
NIC_COUNTERS = (
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "out_of_sequence",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "duplicate_request",
    "rx_icrc_encapsulated",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "out_of_buffer",
    "rx_discards_phy",
)

# Those of a port's link, in the order of their fields in the contract. A device that lacks one leaves it out.
LINK_COUNTERS = ("rx_crc_errors", "fec_corrected_codewords", "fec_uncorrectable_codewords", "flaps")
LINK_GAUGES = ("speed_bps", "lanes")

QUEUES_AT = len(PORT_COUNTERS)
NIC_AT = QUEUES_AT + PRIORITIES * len(QUEUE_COUNTERS)
LINK_AT = NIC_AT + len(NIC_COUNTERS)
COLUMNS = LINK_AT + len(LINK_COUNTERS)


def port_column(name: str) -> int:
    """Return the column of one of PORT_COUNTERS."""
    return PORT_COUNTERS.index(name)


def queue_columns(name: str) -> slice:
    """Return the eight columns of one of QUEUE_COUNTERS, priority 0 first."""
    first = QUEUES_AT + QUEUE_COUNTERS.index(name)
    return slice(first, NIC_AT, len(QUEUE_COUNTERS))


def nic_column(name: str) -> int:
    """Return the column of one of NIC_COUNTERS."""
    return NIC_AT + NIC_COUNTERS.index(name)


def link_column(name: str) -> int:
    """Return the column of one of LINK_COUNTERS."""
    return LINK_AT + LINK_COUNTERS.index(name)
