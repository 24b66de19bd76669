"""Switches that speak real OpenFlow 1.3 bytes; tests/contract compares them with Open vSwitch."""
