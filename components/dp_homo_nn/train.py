"""The stage train: who plays what, and what each party writes."""
from fate_dp.components.common.summary import show_summary

from .agreement import agree_on_terms
from .model import to_json, without_weights
from .summary import summary_of


def train_party(ctx, given: dict, frame):
    """This party's part of a training.

    :param given: the parameters of the job; None for one that was not set.
    :param frame: the party's table; None at the arbiter and the shuffler.
    :returns: (model document, prediction frame of its own rows or None).
    :raises ValueError: one sentence, at every party.
    """
    agreement = agree_on_terms(ctx, given, frame)
    me = tuple(ctx.federation.local_party)
    if me in agreement.federation.data:
        return _train_data_party(ctx, agreement, frame)
    if me == agreement.federation.server:
        from .arbiter import serve

        course = serve(ctx, agreement)
        show_summary(ctx, summary_of(agreement, course))
        return without_weights("arbiter", {**agreement.promise, **course.to_json()}), None
    from .shuffler_host import relay_rounds

    passed_on = relay_rounds(ctx, agreement).passed_on
    show_summary(ctx, {"role": "shuffler, without data", "messages passed on": passed_on})
    return without_weights("shuffler", agreement.promise), None


def _train_data_party(ctx, agreement, frame):
    from fate.ml.utils.predict_tools import TRAIN_SET

    from .data_party import take_part
    from .predict import prediction_frame

    weights, course = take_part(ctx, agreement, frame)
    privacy = {**agreement.promise, **course.to_json()}
    document = to_json(agreement.source.spec(), weights, frame.schema.columns.to_list(), agreement.settings, privacy)
    show_summary(ctx, summary_of(agreement, course))
    return document, prediction_frame(ctx, frame, document, TRAIN_SET)
