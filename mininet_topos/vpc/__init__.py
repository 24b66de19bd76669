"""The lab of virtual networks: tenants with the same addresses, a customer's site, the internet, two gateways."""
