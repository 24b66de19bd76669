"""Ports on fabrics that hash: what probes look for, and what follows from what they find."""
