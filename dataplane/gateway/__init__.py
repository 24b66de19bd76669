"""The VPC gateway: its graph of packet elements, and what it keeps between packets."""
