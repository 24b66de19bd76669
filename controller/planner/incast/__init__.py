"""Plan incasts: confine many-to-one senders to few top switches, limit their rates or let them take turns."""
