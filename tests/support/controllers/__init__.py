"""Controllers that tests run, as processes or in threads, and clients that load them."""
