"""Heddle, a software-defined RDMA fabric controller: the packages and their order are in docs/architecture.md.

Five packages are links to folders at the top of the repository. Each refuses another name than `heddle.…`: in a
checkout `import controller` would otherwise load a second copy of every module.
"""
