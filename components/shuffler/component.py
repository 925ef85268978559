"""FATE entry point of ``shuffler``: private mean, histogram and frequency of columns over all parties' records."""
from fate.components.core import ARBITER, GUEST, HOST, Role, cpn
from fate_dp.components.common.parameters import checked
from fate_dp.components.common.wire.task import with_plain_messages
from fate_dp.components.shuffler import settings


@cpn.component(roles=[GUEST, HOST, ARBITER], provider="fate")
@with_plain_messages
def shuffler(
    ctx,
    role: Role,
    input_data: cpn.dataframe_input(roles=[GUEST, HOST], optional=True),
    requests: cpn.parameter(
        type=checked(settings.requests, "Requests"),
        desc="statistics: column, kind (mean, histogram, frequency), low and high, bins, points or values",
        optional=False,
    ),
    shuffler: cpn.parameter(
        type=checked(settings.shuffler, "Shuffler"),
        desc="party id of the host that shuffles and brings no data",
        optional=False,
    ),
    least_messages: cpn.parameter(
        type=checked(settings.least_messages, "LeastMessages"),
        desc="fewest records of all parties but any one of them; fewer end the job before anything is forwarded",
        optional=False,
    ),
    epsilon: cpn.parameter(
        type=checked(settings.epsilon, "Epsilon"),
        default=None,
        desc="privacy loss of one record over all requests in nats, replace-one; or give epsilon0",
    ),
    epsilon0: cpn.parameter(
        type=checked(settings.epsilon0, "Epsilon0"), default=None,
        desc="privacy loss of one message before shuffling, in place of epsilon",
    ),
    delta: cpn.parameter(type=checked(settings.delta, "Delta"), default=1e-6, desc="delta of epsilon"),
    output_model: cpn.json_model_output(roles=[GUEST, HOST, ARBITER]),
):
    """Every record answers each request by randomised response; a host without data shuffles the sealed answers."""
    from .run import run

    asked = settings.Settings(requests, shuffler, least_messages, epsilon, epsilon0, delta)
    frame = input_data.read() if input_data is not None else None
    output_model.write(run(ctx, asked, frame), metadata={})
