"""The VPC lab: tenants with overlapping addresses, a customer site, the internet, and one or two gateways."""
