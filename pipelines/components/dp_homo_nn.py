"""Client class of the dp_homo_nn component."""
from fate_client.pipeline.components.component_base import Component
from fate_client.pipeline.conf.types import PlaceHolder
from fate_client.pipeline.interface import ArtifactType

from fate_dp.components.dp_homo_nn.settings import CHECKS, given_settings

from .definition import check_given, definition_path
from .fate_names import refuse_unknown


class DPHomoNN(Component):
    """Horizontal training with differential privacy: guest and hosts hold records, the arbiter is the server.

    ``rounds``, ``batch_size`` (expected records of a round over all parties) and ``records`` (public number of all of
    them) must be given, and either ``epsilon`` or ``noise_multiplier`` (``epsilon0`` for trust shuffle); the rest is as in
    `fate_dp.components.dp_homo_nn.settings.TrainSettings`. With ``trust`` shuffle the host with the party id ``shuffler``
    takes part without data: leave it out of the reader's ``runtime_parties``. ``fate-dp plan homo-nn`` tells beforehand
    what each trust model costs.
    """

    yaml_define_path = definition_path("dp_homo_nn")

    def __init__(
        self,
        _name: str,
        runtime_parties: dict = None,
        model: dict = PlaceHolder(),
        loss: str = PlaceHolder(),
        optimizer: dict = PlaceHolder(),
        learning_rate_scheduler: dict = PlaceHolder(),
        init_param: dict = PlaceHolder(),
        rounds: int = PlaceHolder(),
        batch_size: float = PlaceHolder(),
        records: int = PlaceHolder(),
        classes: int = PlaceHolder(),
        class_weights: dict = PlaceHolder(),
        epsilon: float = PlaceHolder(),
        noise_multiplier: float = PlaceHolder(),
        epsilon0: float = PlaceHolder(),
        delta: float = PlaceHolder(),
        relation: str = PlaceHolder(),
        clip: float | list | dict = PlaceHolder(),
        trust: str = PlaceHolder(),
        unit: str = PlaceHolder(),
        tolerated: int = PlaceHolder(),
        local_steps: int = PlaceHolder(),
        local_learning_rate: float = PlaceHolder(),
        local_batch_size: int = PlaceHolder(),
        client_weights: dict = PlaceHolder(),
        upload_fraction: float = PlaceHolder(),
        noise: str = PlaceHolder(),
        adaptive: dict = PlaceHolder(),
        shuffler: str = PlaceHolder(),
        split: str = PlaceHolder(),
        threshold: float = PlaceHolder(),
        train_data: ArtifactType = PlaceHolder(),
        test_data: ArtifactType = PlaceHolder(),
        input_model: ArtifactType = PlaceHolder(),
        **_unknown,
    ):
        inputs = locals()
        refuse_unknown("DPHomoNN", _unknown, CHECKS)
        self._process_init_inputs(inputs)
        super().__init__()
        check_given(CHECKS, inputs)
        given = {name: inputs[name] for name in CHECKS if not isinstance(inputs[name], PlaceHolder)}
        # A task that only predicts needs no settings.
        if given:
            given_settings(given)
        self._name = _name
        self.runtime_parties = runtime_parties
        for name in CHECKS:
            setattr(self, name, inputs[name])
        self.train_data = train_data
        self.test_data = test_data
        self.input_model = input_model
