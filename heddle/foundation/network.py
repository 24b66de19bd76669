"""Name the four networks of a GPU cluster, as the fabric file, VPCs and gateways have them."""

from enum import StrEnum


class Network(StrEnum):
    """A network of a GPU cluster: each NIC and VPC is in one; traffic between them needs a border rule."""

    COMPUTE = "compute"
    STORAGE = "storage"
    BUSINESS = "business"
    MANAGEMENT = "management"
