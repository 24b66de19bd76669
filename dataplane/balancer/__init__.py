"""The L4 load balancer: its graph of packet elements, its tables and connections, and the compiler of its services."""
