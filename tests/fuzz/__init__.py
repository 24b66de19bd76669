from tests.support.packets import scapy_apart  # noqa: F401 - before a program of this folder imports scapy
