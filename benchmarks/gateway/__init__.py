"""The packet engine beside other forwarders, and the takeover of one gateway by its partner."""
