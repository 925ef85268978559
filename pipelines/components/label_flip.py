"""Client class of the label_flip component."""
from fate_client.pipeline.components.component_base import Component
from fate_client.pipeline.conf.types import PlaceHolder
from fate_client.pipeline.interface import ArtifactType

from fate_dp.components.common import checks
from fate_dp.components.label_flip import settings
from fate_dp.privacy.mechanisms.piecewise import check_bins
from fate_dp.privacy.mechanisms.randomized_response import check_epsilon

from .definition import check_given, definition_path


CHECKS = {
    "epsilon": check_epsilon,
    "label_source": checks.label_source,
    "classes": checks.classes,
    "bounds": settings.bounds,
    "bins": check_bins,
}


class LabelFlip(Component):
    """Randomised response on the guest's labels, or unbiased noise on numbers, once per record and epsilon.

    Args:
        epsilon: nats, unit label, replace-one.
        label_source: ``namespace/name/column`` of the labels, the unit of the budget in the guest's ledger.
        classes: all label values that may occur, [0, 1] unless given.
        bounds: for labels that are numbers, in place of ``classes``: the public [lower, upper] bound. Labels become noisy, and
            unbiased, so that linear regression (family gaussian) learns from them.
        bins: points of the public grid between the bounds; as many as suit epsilon best unless given.
    """

    yaml_define_path = definition_path("label_flip")

    def __init__(
        self,
        _name: str,
        runtime_parties: dict = None,
        epsilon: float = PlaceHolder(),
        label_source: str = PlaceHolder(),
        classes: list = PlaceHolder(),
        bounds: list = PlaceHolder(),
        bins: int = PlaceHolder(),
        input_data: ArtifactType = PlaceHolder(),
    ):
        inputs = locals()
        self._process_init_inputs(inputs)
        super().__init__()
        check_given(CHECKS, inputs)
        settings.check_together(
            epsilon, _or_default(classes, settings.CLASSES), _or_default(bounds, None), _or_default(bins, None)
        )
        self._name = _name
        self.runtime_parties = runtime_parties
        self.epsilon = epsilon
        self.label_source = label_source
        self.classes = classes
        self.bounds = bounds
        self.bins = bins
        self.input_data = input_data


def _or_default(given, default):
    return default if given is None or isinstance(given, PlaceHolder) else given
