"""The slow path: ARP, neighbour discovery, ICMP and fragmentation of punted packets. Pure: values in, values out."""
