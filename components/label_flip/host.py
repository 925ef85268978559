"""A host's part of label_flip: it tells the guest whether a training on the flips could go on, and passes its table on."""
from fate_dp.components.common.parties import check_roles
from fate_dp.components.common.party_home import home_of, job_of
from fate_dp.components.common.pass_through import pass_through

from .chain import host_facts


def pass_on(ctx, input_data, output_data) -> None:
    """See `pass_through`; the facts are those that dp_hetero_lr would tell the guest in its first message, if it asks."""
    check_roles(ctx, arbiter=False)
    home, job, asked = home_of(ctx), job_of(ctx), ctx.guest.get("asks")
    pass_through(ctx, input_data, output_data, lambda frame: host_facts(home, job, frame) if asked else {})
