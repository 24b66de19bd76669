"""Packets over veth pairs: what each way of forwarding costs in processor time, side by side on the same wires."""
