"""Provide small functions that every program uses: retry delays, address texts, bits, options of gRPC, Unix sockets.

Imports nothing of ours. README.md lists the modules, and which of them are pure.
"""
