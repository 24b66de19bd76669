"""Generated fabrics, implemented independently from the contract: plain strings and numbers, counted from 1.

Each function returns (switches, cables, nics): {id: (role, datapath id)}, {(lower port, upper port)}, {nic id: fields}.
"""


def _address(number):
    return ".".join(str(octet) for octet in (10, number // 65536, number // 256 % 256, number % 256))


def _nic(host, r, ip_number, mac_number, port):
    digits = f"{mac_number:010x}"
    mac = "02:" + ":".join(digits[i : i + 2] for i in range(0, 10, 2))
    return {"host": f"h{host}", "ip": _address(ip_number), "mac": mac, "port": port, "rail": r}


def _two_tiers(spines, leaves, links_per_spine):
    switches = {f"spine{s}": ("spine", s) for s in range(1, spines + 1)}
    switches |= {f"leaf{i}": ("leaf", spines + i) for i in range(1, leaves + 1)}
    cables = set()
    for leaf in range(1, leaves + 1):
        for s in range(1, spines + 1):
            for j in range(1, links_per_spine + 1):
                up, down = (s - 1) * links_per_spine + j, (leaf - 1) * links_per_spine + j
                cables.add((f"leaf{leaf}:{up}", f"spine{s}:{down}"))
    return switches, cables


def spine_leaf(*, spines, leaves, hosts_per_leaf, nics_per_host=1, links_per_spine=1):
    switches, cables = _two_tiers(spines, leaves, links_per_spine)
    nics, host, number = {}, 0, 0
    for leaf in range(1, leaves + 1):
        port = spines * links_per_spine
        for _ in range(hosts_per_leaf):
            host += 1
            for r in range(nics_per_host):
                port, number = port + 1, number + 1
                nics[f"h{host}-n{r}"] = _nic(host, r, number, number, f"leaf{leaf}:{port}")
    return switches, cables, nics


def rail_optimised(*, spines, leaves, hosts_per_leaf, nics_per_host=1, links_per_spine=1):
    switches, cables = _two_tiers(spines, leaves, links_per_spine)
    rails, uplinks = nics_per_host, spines * links_per_spine
    nics, host, number = {}, 0, 0
    for group in range(1, leaves // rails + 1):
        for i in range(1, hosts_per_leaf + 1):
            host += 1
            for r in range(rails):
                number += 1
                nics[f"h{host}-n{r}"] = _nic(host, r, 0, number, f"leaf{(group - 1) * rails + r + 1}:{uplinks + i}")
    number = 0
    for leaf in range(1, leaves + 1):
        here = [nic for nic in nics.values() if nic["port"].startswith(f"leaf{leaf}:")]
        for nic in sorted(here, key=lambda nic: int(nic["port"].split(":")[1])):
            number += 1
            nic["ip"] = _address(number)
    return switches, cables, nics


def clos3(*, spines, leaves, pods, aggs_per_pod, hosts_per_leaf, nics_per_host=1):
    plane = spines // aggs_per_pod
    names = [(f"core{c}", "core") for c in range(1, spines + 1)]
    names += [(f"pod{p}-agg{a}", "agg") for p in range(1, pods + 1) for a in range(1, aggs_per_pod + 1)]
    names += [(f"pod{p}-leaf{i}", "leaf") for p in range(1, pods + 1) for i in range(1, leaves + 1)]
    switches = {name: (role, number) for number, (name, role) in enumerate(names, start=1)}
    cables, nics, host, number = set(), {}, 0, 0
    for p in range(1, pods + 1):
        for a in range(1, aggs_per_pod + 1):
            cables |= {(f"pod{p}-leaf{i}:{a}", f"pod{p}-agg{a}:{i}") for i in range(1, leaves + 1)}
            cores = range((a - 1) * plane + 1, a * plane + 1)
            cables |= {(f"pod{p}-agg{a}:{leaves + k}", f"core{c}:{p}") for k, c in enumerate(cores, start=1)}
        for i in range(1, leaves + 1):
            port = aggs_per_pod
            for _ in range(hosts_per_leaf):
                host += 1
                for r in range(nics_per_host):
                    port, number = port + 1, number + 1
                    nics[f"h{host}-n{r}"] = _nic(host, r, number, number, f"pod{p}-leaf{i}:{port}")
    return switches, cables, nics
