"""OpenFlow 1.3 towards the switches: bytes are checked, then decoded; rules become bytes; nothing is decided here."""
