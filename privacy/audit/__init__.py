"""Empirical lower bounds on epsilon: what an attack proves about a mechanism, whatever its proof says."""
