"""The host's part of label_flip: it takes part in the preflight, so that it learns of a refusal, and passes on."""
from fate_dp.components.common.frame_checks import refuse_label
from fate_dp.components.common.parties import check_roles
from fate_dp.components.common.preflight import agree


def pass_through(ctx, input_data, output_data) -> None:
    check_roles(ctx, arbiter=False)
    frame = input_data.read()

    def check():
        refuse_label(frame)
        return {}

    agree(ctx, check)
    output_data.write(frame)
