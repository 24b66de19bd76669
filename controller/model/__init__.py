"""Frozen values that every other package speaks: no behaviour beyond what a value can say of itself."""
