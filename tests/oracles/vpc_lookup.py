"""Routes and rules of a VPC by `ipaddress` and a loop."""

from ipaddress import ip_address, ip_network


def best_route(routes, address):
    """Return the longest prefix that contains an address, or None."""
    address = ip_address(address)
    prefixes = [ip_network(route) for route in routes]
    found = [prefix for prefix in prefixes if prefix.version == address.version and address in prefix]
    return max(found, key=lambda prefix: prefix.prefixlen, default=None)


def first_verdict(rules, default, protocol, remote, port):
    """Return the verdict of the first matching rule; rules are (allow, protocol, remote prefix, (first port, last
    port)).
    """
    remote = ip_address(remote)
    protocol = "icmp" if protocol in (1, 58) else protocol
    for allow, wanted, prefix, ports in rules:
        wanted = "icmp" if wanted in (1, 58) else wanted
        prefix = ip_network(prefix)
        if wanted not in (0, protocol):
            continue
        if prefix.version != remote.version or remote not in prefix:
            continue
        if protocol == "icmp" or ports[0] <= port <= ports[1]:
            return allow
    return default
