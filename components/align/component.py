"""FATE entry point of ``align``: the records of guest and host, joined as additive shares."""
from fate.components.core import GUEST, HOST, Role, cpn
from fate_dp.components.align import settings
from fate_dp.components.common.parameters import checked
from fate_dp.components.common.wire.task import with_plain_messages


@cpn.component(roles=[GUEST, HOST], provider="fate")
@with_plain_messages
def align(
    ctx,
    role: Role,
    input_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    hide_size: cpn.parameter(
        type=checked(settings.hide_size, "HideSize"),
        default=None,
        desc="true, or a mapping with epsilon, delta and pool: a secret number of dummies hides the number of matches; "
        "None means that both learn it",
    ),
    key_length: cpn.parameter(
        type=checked(settings.key_length, "KeyLength"), default=2048, desc="bits of the Paillier keys, at least 2048"
    ),
    label_source: cpn.parameter(
        type=checked(settings.label_source, "LabelSource"),
        default=None,
        desc="namespace/name/column of labels that the guest's operator declared public",
    ),
    output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
    alignment: cpn.json_model_output(roles=[GUEST, HOST]),
):
    """Each party gets additive shares of the matched records' features and label; nobody learns which ids matched."""
    from .run import run

    shares, facts = run(ctx, settings.Settings(key_length, hide_size), input_data.read(), label_source)
    output_data.write(shares)
    alignment.write(facts.to_json(), metadata={})
