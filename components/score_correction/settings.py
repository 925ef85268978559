"""Parameters of score_correction. No FATE in here."""

from dataclasses import dataclass

from fate_dp.privacy.validation import check_epsilon

from ..common.parameters import parameter


@dataclass(frozen=True)
class Settings:
    """Corrects the guest's scores by the known rate at which label_flip flipped the labels of the training."""

    epsilon: float = parameter(
        "epsilon of the label_flip whose labels the model was trained on, in nats",
        check=check_epsilon,
        note="A finite number greater than 0.",
    )
    threshold: float = parameter("corrected probability above which class 1 is predicted", 0.5, at_least=0, at_most=1)
