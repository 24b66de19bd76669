"""Source ports on fabrics that hash: which flows need a probed port, and what follows from the ports found."""
