"""Client class of the flipback component."""
from fate_client.pipeline.components.component_base import Component
from fate_client.pipeline.conf.types import PlaceHolder
from fate_client.pipeline.interface import ArtifactType

from fate_dp.components.flipback import settings

from .definition import check_given, definition_path


class FlipbackTask(Component):
    """Better labels for a second training, from ``scores``, the train_output_data of a first one. Costs no epsilon."""

    yaml_define_path = definition_path("flipback")

    def __init__(
        self,
        _name: str,
        runtime_parties: dict = None,
        mode: str = PlaceHolder(),
        fraction: float = PlaceHolder(),
        input_data: ArtifactType = PlaceHolder(),
        scores: ArtifactType = PlaceHolder(),
    ):
        inputs = locals()
        self._process_init_inputs(inputs)
        super().__init__()
        check_given({"mode": settings.mode, "fraction": settings.fraction}, inputs)
        self._name = _name
        self.runtime_parties = runtime_parties
        self.mode = mode
        self.fraction = fraction
        self.input_data = input_data
        self.scores = scores
