"""The shuffle model: clients encode and encrypt, a shuffler permutes what it cannot read, a server opens and adds up.

The shuffler sees who sent how many ciphertexts of one size; the server sees payloads in random order. What the payloads
themselves protect (a pure local randomiser each) and what shuffling adds to it is the business of `privacy`; transport
knows no epsilon. A shuffler that colludes with the server undoes the shuffling, never the randomisers.
"""
from .analyzer import Analyzer
from .encoder import Encoder
from .messages import InvalidMessage, MessageFormat, Piece, TooFewMessages
from .shuffle import shuffle
from .splitting import Splitting

__all__ = ["Analyzer", "Encoder", "InvalidMessage", "MessageFormat", "Piece", "Splitting", "TooFewMessages", "shuffle"]
