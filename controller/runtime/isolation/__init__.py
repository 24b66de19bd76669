"""Verify the installed tables of gateways and balancers in a process of its own."""
