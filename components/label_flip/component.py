"""FATE entry point of ``label_flip``: k-ary randomised response, or unbiased noise, on the guest's label column."""
from fate.components.core import GUEST, HOST, Role, cpn
from fate_dp.components.common import checks
from fate_dp.components.common.parameters import checked
from fate_dp.components.common.wire.task import with_plain_messages
from fate_dp.components.label_flip import settings
from fate_dp.privacy.mechanisms.piecewise import check_bins
from fate_dp.privacy.mechanisms.randomized_response import check_epsilon


@cpn.component(roles=[GUEST, HOST], provider="fate")
@with_plain_messages
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
        type=checked(checks.classes, "Classes"), default=settings.CLASSES, desc="all label values that may occur"
    ),
    bounds: cpn.parameter(
        type=checked(settings.bounds, "Bounds"),
        default=None,
        desc="for labels that are numbers: public lower and upper bound, in place of classes; labels become noisy, unbiased",
    ),
    bins: cpn.parameter(
        type=checked(check_bins, "Bins"),
        default=None,
        desc="with bounds: number of points of the public grid; None means as many as suit epsilon best",
    ),
    output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
):
    """Releases each record's label once per epsilon; hosts pass their table through."""
    settings.check_together(epsilon, classes, bounds, bins)
    if role.is_guest:
        from fate_dp.components.common.job_files import JobFiles

        from .guest import flip

        flip(
            ctx, input_data, output_data, epsilon=epsilon, classes=classes, label_source=label_source, bounds=bounds,
            bins=bins, job=JobFiles.of_this_task(),
        )  # fmt: skip
    else:
        from .host import pass_on

        pass_on(ctx, input_data, output_data)
