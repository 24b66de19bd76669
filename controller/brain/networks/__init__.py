"""Virtual networks: their state, changes of VPCs, and the sessions of gateways and hosts."""
