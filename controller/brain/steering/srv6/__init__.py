"""Steering by SRv6: each packet names its path, and switches have constant entries for it."""
