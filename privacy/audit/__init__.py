"""Empirical lower bounds on epsilon: what an attack proves about a mechanism, whatever its proof says.

An attack measures a mechanism; ``control.audit_claim`` compares what it found with what is claimed, and refuses an
audit that could not have failed. No audit proves privacy: a bound under the claim means that this attack found nothing.
"""
