"""Make a FATE context of one party, as the scripts here need it."""

import tempfile
import uuid

from fate.arch.computing.backends.standalone import CSession
from fate.arch.context import Context
from fate.arch.federation import FederationBuilder

PARTY = ("guest", "9999")


def make_context():
    session = uuid.uuid4().hex
    computing = CSession(session_id=session, data_dir=tempfile.mkdtemp(), options={"task_cores": 1})
    federation = FederationBuilder(federation_session_id=session, party=PARTY, parties=[PARTY])
    return Context(computing=computing, federation=federation.build_standalone(computing))
