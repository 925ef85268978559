"""Client class of the share_lr component."""
from fate_client.pipeline.components.component_base import Component
from fate_client.pipeline.conf.types import PlaceHolder
from fate_client.pipeline.interface import ArtifactType

from fate_dp.components.dp_hetero_lr.settings import true_labels as check_true_labels
from fate_dp.components.share_lr.settings import CHECKS, ShareSettings

from .definition import check_given, definition_path
from .fate_names import refuse_unknown


class ShareLR(Component):
    """Logistic or linear regression of a guest and one host on what ``align`` left: shares of all columns.

    Parameters are named as in FATE's CoordinatedLR, the optimizer's method is sgd and weights start from zero. Beyond
    those: ``family`` (binomial or gaussian), ``reveal`` (both, guest, host or nobody: whom the weights are opened to)
    and ``train_scores`` (whether the guest gets the scores and labels of the training rows, in random order; the host's
    ledger counts it). ``true_labels`` is for predictions of rows held out of training whose labels at the guest are true.

    Args:
        train_data, test_data: ``output_data`` of an ``align``.
        alignment: ``alignment`` of the same ``align``.
        input_model: of a training, to predict with.
    """

    yaml_define_path = definition_path("share_lr")

    def __init__(
        self,
        _name: str,
        runtime_parties: dict = None,
        epochs: int = PlaceHolder(),
        optimizer: dict = PlaceHolder(),
        learning_rate_scheduler: dict = PlaceHolder(),
        init_param: dict = PlaceHolder(),
        tol: float = PlaceHolder(),
        early_stop: str = PlaceHolder(),
        threshold: float = PlaceHolder(),
        he_param: dict = PlaceHolder(),
        family: str = PlaceHolder(),
        reveal: str = PlaceHolder(),
        train_scores: bool = PlaceHolder(),
        true_labels: bool = PlaceHolder(),
        train_data: ArtifactType = PlaceHolder(),
        test_data: ArtifactType = PlaceHolder(),
        alignment: ArtifactType = PlaceHolder(),
        input_model: ArtifactType = PlaceHolder(),
        **_unknown,
    ):
        inputs = locals()
        refuse_unknown("ShareLR", _unknown, CHECKS)
        self._process_init_inputs(inputs)
        super().__init__()
        check_given({**CHECKS, "true_labels": check_true_labels}, inputs)
        ShareSettings.of(**{name: inputs[name] for name in CHECKS if not isinstance(inputs[name], PlaceHolder)})
        self._name = _name
        self.runtime_parties = runtime_parties
        for name in CHECKS:
            setattr(self, name, inputs[name])
        self.true_labels = true_labels
        self.train_data = train_data
        self.test_data = test_data
        self.alignment = alignment
        self.input_model = input_model
