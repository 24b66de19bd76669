"""Read what the ports of a device hear of their neighbours, from the daemons that run there."""
