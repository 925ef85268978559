"""Cryptographic primitives of FATE-DP: Paillier with fast blinding, products under encryption, additive shares of them.

Nothing here knows FATE, a network, or an epsilon. What leaves a party is a `paillier.Ciphertext`: blinded by its type.
"""
