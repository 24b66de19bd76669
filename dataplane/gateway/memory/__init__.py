"""State that outlives a packet: connections, NAT mappings, accounts per VPC, and records for the partner."""
