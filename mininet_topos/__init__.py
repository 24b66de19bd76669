"""The lab: a fabric file as real switches, links and NICs on one machine, with every packet accounted for."""

if __name__ != "heddle.mininet_topos":
    raise ImportError("this package is heddle.mininet_topos: import it by that name")
