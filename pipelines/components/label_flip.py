"""Client class of the label_flip component."""
from fate_client.pipeline.components.component_base import Component
from fate_client.pipeline.conf.types import PlaceHolder
from fate_client.pipeline.interface import ArtifactType

from fate_dp.components.common import checks
from fate_dp.privacy.mechanisms.randomized_response import check_epsilon

from .definition import check_given, definition_path


class LabelFlip(Component):
    """Randomised response on the guest's labels, once per record and epsilon.

    Args:
        epsilon: nats, unit label, replace-one.
        label_source: ``namespace/name/column`` of the labels, the unit of the budget in the guest's ledger.
        classes: all label values that may occur, [0, 1] unless given.
    """

    yaml_define_path = definition_path("label_flip")

    def __init__(
        self,
        _name: str,
        runtime_parties: dict = None,
        epsilon: float = PlaceHolder(),
        label_source: str = PlaceHolder(),
        classes: list = PlaceHolder(),
        input_data: ArtifactType = PlaceHolder(),
    ):
        inputs = locals()
        self._process_init_inputs(inputs)
        super().__init__()
        check_given(
            {"epsilon": check_epsilon, "label_source": checks.label_source, "classes": checks.classes}, inputs
        )
        self._name = _name
        self.runtime_parties = runtime_parties
        self.epsilon = epsilon
        self.label_source = label_source
        self.classes = classes
        self.input_data = input_data
