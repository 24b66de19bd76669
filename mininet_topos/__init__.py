"""The lab: a fabric file as real switches, links and NICs on one machine, with every packet accounted for."""
