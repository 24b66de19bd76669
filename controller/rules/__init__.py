"""Compile plans to switch rules as values; compute differences, order changes, trace packets.

Independent of how paths are planned and of how rules are encoded.
"""
