"""Provide small functions that every program uses: retry delays, address texts, bits, a probe of Unix sockets.

Imports nothing of ours. Pure, except for `unix_socket`.
"""
