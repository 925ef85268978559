"""Client class of the shuffler component."""
from fate_client.pipeline.components.component_base import Component
from fate_client.pipeline.conf.types import PlaceHolder
from fate_client.pipeline.interface import ArtifactType

from fate_dp.components.shuffler import settings

from .definition import check_given, definition_path


class Shuffler(Component):
    """Private mean, histogram and frequency of columns over the records of all parties, in the shuffle model.

    The guest and all hosts but one bring tables with the same columns; the host named ``shuffler`` brings none, and the
    arbiter is the server.

    Args:
        requests: statistics, each ``{"column": .., "kind": "mean", "low": .., "high": ..}``, a ``histogram`` with
            ``bins`` besides, or a ``frequency`` with ``values`` in place of the range. A mean may have ``points``, 2
            unless given. Ranges must come from public facts: values outside count as the nearer end.
        shuffler: party id of the host without data.
        least_messages: records that all parties together must bring beside any single one of them; the fewer, the more
            epsilon costs.
        epsilon: of one record over all requests, at delta, in nats, replace-one; or
        epsilon0: of one message. Exactly one of the two.
        delta: 1e-6 unless given.
        input_data: the reader's output, from a reader without the shuffler and the arbiter.
    """

    yaml_define_path = definition_path("shuffler")

    def __init__(
        self,
        _name: str,
        runtime_parties: dict = None,
        requests: list = PlaceHolder(),
        shuffler: str = PlaceHolder(),
        least_messages: int = PlaceHolder(),
        epsilon: float = PlaceHolder(),
        epsilon0: float = PlaceHolder(),
        delta: float = PlaceHolder(),
        input_data: ArtifactType = PlaceHolder(),
    ):
        inputs = locals()
        self._process_init_inputs(inputs)
        super().__init__()
        names = ("requests", "shuffler", "least_messages", "epsilon", "epsilon0", "delta")
        check_given({name: getattr(settings, name) for name in names}, inputs)
        self._name = _name
        self.runtime_parties = runtime_parties
        self.requests = requests
        self.shuffler = shuffler
        self.least_messages = least_messages
        self.epsilon = epsilon
        self.epsilon0 = epsilon0
        self.delta = delta
        self.input_data = input_data
