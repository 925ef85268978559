"""FATE entry point of ``label_flip``: k-ary randomised response on the guest's label column."""
from fate.components.core import GUEST, HOST, Role, cpn
from fate_dp.components.common import checks
from fate_dp.components.common.parameters import checked
from fate_dp.privacy.mechanisms.randomized_response import check_epsilon


@cpn.component(roles=[GUEST, HOST], provider="fate")
def label_flip(
    ctx,
    role: Role,
    input_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    epsilon: cpn.parameter(
        type=checked(check_epsilon, "Epsilon"),
        desc="privacy loss of one label in nats, replace-one",
        optional=False,
    ),
    label_source: cpn.parameter(
        type=checked(checks.label_source, "LabelSource"),
        desc="namespace/name/column of the labels, the unit of the budget",
        optional=False,
    ),
    classes: cpn.parameter(
        type=checked(checks.classes, "Classes"), default=(0.0, 1.0), desc="all label values that may occur"
    ),
    output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
):
    """Releases each record's label once per epsilon; hosts pass their table through."""
    if role.is_guest:
        from .guest import flip

        flip(ctx, input_data, output_data, epsilon=epsilon, classes=classes, label_source=label_source)
    else:
        from fate_dp.components.common.pass_through import pass_through

        pass_through(ctx, input_data, output_data)
