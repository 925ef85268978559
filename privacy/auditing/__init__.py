"""Certificates: what an audit of one run, or of one mechanism, found, so that somebody else can recompute it."""
