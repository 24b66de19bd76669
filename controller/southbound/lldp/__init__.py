"""Hear the cabling of OpenFlow switches: LLDP frames of our own leave every port, and come in where its cable ends."""
