"""The fabric as routers: network namespaces with kernel ECMP and static routes, and no rule in any of them."""
