"""The VPC gateway: its graph of packet elements, its tables and state, and the compiler of its configuration."""
