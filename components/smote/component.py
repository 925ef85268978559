"""FATE entry point of ``smote``: over-sampling of each party's own training table."""
from fate.components.core import GUEST, HOST, Role, cpn
from fate_dp.components.common.parameters import checked
from fate_dp.components.common.wire.task import with_plain_messages
from fate_dp.components.smote import settings


@cpn.component(roles=[GUEST, HOST], provider="fate")
def smote(ctx, role):
    """Over-samples each party's training rows; has the stage train only, since models are tested on real rows."""


@smote.train()
@with_plain_messages
def train(
    ctx,
    role: Role,
    train_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    dataset: cpn.parameter(
        type=checked(settings.dataset, "Dataset"),
        desc="namespace/name of the table in the party's ledger",
        optional=False,
    ),
    method: cpn.parameter(
        type=checked(settings.method, "Method"),
        default="smotenc",
        desc="how rows are made: smotenc, smotenc_parents, or smote to compare with",
    ),
    neighbours: cpn.parameter(
        type=checked(settings.neighbours, "Neighbours"), default=5, desc="nearest records to interpolate with"
    ),
    groups: cpn.parameter(
        type=checked(settings.groups, "Groups"),
        default=(),
        desc="lists of one-hot column names; none means that all columns are numeric",
    ),
    seed: cpn.parameter(
        type=checked(settings.seed, "Seed"), default=None,
        desc="start of the draws, known to all parties; None means the operating system's entropy",
    ),
    train_output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
):
    """Brings every class to the size of the largest one, at each party alone; no record has a guarantee afterwards."""
    from .party import over_sample_table, rule_of

    over_sampling = rule_of(method, neighbours, groups)
    over_sample_table(ctx, train_data, train_output_data, over_sampling, groups=groups, seed=seed, dataset=dataset)
