"""The accuracy of the fluid model of flow completion times beside a packet-level simulator, and its cost."""
