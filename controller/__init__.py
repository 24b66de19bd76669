"""Heddle, a software-defined RDMA fabric controller: the packages and their order are in docs/architecture.md."""
