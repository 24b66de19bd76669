"""What the fabric feels: samples of counters, their way over the bus, windows over them and signals from them."""
