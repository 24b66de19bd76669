"""Flow completion times by a max-min fluid model, their accuracy beside a packet-level simulator, and their cost."""
