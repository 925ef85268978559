"""FATE entry point of ``score_correction``: probabilities of true labels from a model that was trained on flipped ones."""

from fate.components.core import GUEST, Role, cpn

from ..common.entry_point import party_stage
from ..common.federation import Context
from ..protocols.messages import AGREEMENT
from .settings import Settings


@cpn.component(roles=[GUEST], provider="fate")
@party_stage(AGREEMENT)
def score_correction(
    ctx: Context,
    role: Role,
    input_data: cpn.dataframe_input(roles=[GUEST]),
    settings: Settings,
    output_data: cpn.dataframe_output(roles=[GUEST]),
) -> None:
    """Corrects the guest's scores by the known rate at which label_flip flipped the labels of the training."""
    from .party import correct_scores

    correct_scores(ctx, settings, input_data, output_data)
