"""Cryptographic primitives of FATE-DP: Paillier with fast blinding, products under encryption, masked packing.

Nothing here knows FATE, a network, or an epsilon.
"""
