"""State that outlives a packet: connections, NAT mappings, shares per VPC, and records for the partner."""
