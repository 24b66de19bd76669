"""The shapes of the JSON documents: the types that the code writes, and the source of the OpenAPI document.

Ids are those of the fabric file and of the gRPC API.
"""
