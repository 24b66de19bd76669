"""Plans of many random cases beside peers and optima."""
