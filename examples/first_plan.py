"""Plan an all-to-all, cut a cable, and draw both plans: python examples/first_plan.py [PICTURE.png]"""

import sys

import heddle

fabric = heddle.spine_leaf(spines=4, leaves=8, hosts_per_leaf=4, gbps=400)
exchange = heddle.Collective(kind=heddle.CollectiveKind.ALL_TO_ALL, size_bytes=10**9)
job = heddle.Job(job_id="train", ranks=tuple(fabric.nic_by_id), collectives=(exchange,))

plan = heddle.plan(fabric, [job])
found = heddle.what_if(plan, failed=["leaf1:1>spine1:1"])
print(f"planned {plan.certificate.max_link_utilisation:.3f}, no plan is below {plan.certificate.lower_bound:.3f}")
print(f"hashed by ECMP {plan.certificate.ecmp_max_link_utilisation:.3f}")
print(f"with a cable cut {found.after.certificate.max_link_utilisation:.3f}, {len(found.moved)} flows moved")
print(f"the last flow completes after {heddle.completion(found.after).last_ns / 1e6:.1f} ms")

if sys.argv[1:]:
    from matplotlib import pyplot

    for name, each in (("planned", plan), ("with a cable cut", found.after)):
        used = [share for link, share in each.utilisation.items() if link in fabric.cable_by_link]
        pyplot.plot(sorted(used, reverse=True), label=name)
    pyplot.legend(title="utilisation of links between switches, fullest first")
    pyplot.savefig(sys.argv[1])
