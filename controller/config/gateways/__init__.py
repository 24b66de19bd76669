"""The files of gateways and balancers: read, check, print."""
