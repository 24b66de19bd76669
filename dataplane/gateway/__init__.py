"""The VPC gateway: elements, tables, and how a configuration becomes them."""
