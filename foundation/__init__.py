"""Provide small functions that every program uses: retry delays, address texts, bits, options of gRPC, Unix sockets.

Imports nothing of ours. Pure, except for `unix_socket` and `network_namespace`.
"""
