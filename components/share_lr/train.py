"""The train stage of share_lr, one function per role."""
import secrets
from functools import partial
from typing import Callable, Tuple

from fate_dp.components.common.party_home import home_of, job_of
from fate_dp.components.common.preflight import agree
from fate_dp.components.common.provenance import record_use
from fate_dp.components.common.summary import show_summary
from fate_dp.components.dp_hetero_lr.figures import TRAINING_ROWS, figures, fitted_to
from fate_dp.components.common.together import Together

from .charges import OpenedSize
from .epochs import Progress, direct, follow
from .model import JoinedModel
from .predict import await_release, count_release, give_scores, take_scores
from .reveal import kept_share, open_weights
from .rows import SharedRows, check_two_parties
from .score_release import JoinedScoreRelease
from .settings import ShareSettings
from .summary import guest_summary, host_summary
from .terms import accept_terms, check_rows, check_same_request, joint_terms, label_privacy
from .training import JoinedTraining


ORIGIN_BYTES = 16


def train_guest(ctx, settings: ShareSettings, frame, alignment: dict):
    """Returns the guest's JSON model and its prediction frame (None without train_scores)."""
    check_two_parties(ctx)
    home, known = home_of(ctx), {}

    def check():
        known["rows"] = rows = SharedRows.of(frame, alignment)
        check_rows(rows, settings)
        known["privacy"] = label_privacy(rows)
        known["privacy"].refuse_numbers(settings.training.family)
        known["size"] = OpenedSize(ctx, rows, settings.reveal)
        return {}

    def commit(hosts):
        (facts,) = hosts.values()
        check_same_request(facts["asked"], settings)
        known["rows"].check_same({name: facts["rows"] for name, facts in hosts.items()})
        terms = joint_terms(known["rows"], settings, known["privacy"].epsilon)
        record_use(home, known["privacy"], job_of(ctx), terms["rows"])
        return terms

    terms = agree(ctx, check, commit)
    rows, privacy, size = known["rows"], known["privacy"], known["size"]
    Together(ctx)("terms", size.record)
    model, progress = _train(ctx.sub_ctx("train"), rows, settings, terms, direct, secrets.token_hex(ORIGIN_BYTES))
    size.mark_released()
    document = model.to_json(settings, terms["optimizer"], progress, privacy.to_json("none"))
    scored, shown = None, {}
    if settings.train_scores:
        from fate.ml.utils.predict_tools import TRAIN_SET

        await_release(ctx)
        key_length = settings.training.he_param["key_length"]
        scored = take_scores(ctx.sub_ctx("predict"), rows, model, document, TRAIN_SET, key_length)
        shown = figures(TRAINING_ROWS, scored, document, privacy, fitted=fitted_to(settings.training, terms, "none", None))
    show_summary(ctx, {**guest_summary(settings, rows.alignment, model, progress, privacy), **shown})
    return document, scored


def train_host(ctx, settings: ShareSettings, frame, alignment: dict) -> dict:
    """Returns the host's JSON model."""
    check_two_parties(ctx)
    known, origin = {}, secrets.token_hex(ORIGIN_BYTES)

    def check():
        known["rows"] = rows = SharedRows.of(frame, alignment)
        check_rows(rows, settings)
        known["size"] = OpenedSize(ctx, rows, settings.reveal)
        if settings.train_scores:
            known["release"] = JoinedScoreRelease.of(home_of(ctx), job_of(ctx), rows.alignment, settings.reveal, origin)
            known["release"].check()
        return {"asked": settings.to_json(), "rows": rows.facts()}

    def accept():
        accept_terms(terms, known["rows"], settings)
        known["size"].record()

    terms = agree(ctx, check)
    Together(ctx)("terms", accept)
    rows = known["rows"]
    model, progress = _train(ctx.sub_ctx("train"), rows, settings, terms, follow, origin)
    known["size"].mark_released()
    if settings.train_scores:
        count_release(ctx, known["release"])
        give_scores(ctx.sub_ctx("predict"), rows, model, settings.training.he_param["key_length"])
    show_summary(ctx, host_summary(rows.alignment, model, progress))
    return model.to_json(settings, terms["optimizer"], progress, None)


def _train(
    ctx, rows: SharedRows, settings: ShareSettings, terms: dict, run_epochs: Callable, origin: str
) -> Tuple[JoinedModel, Progress]:
    """What both parties do alike."""
    training = JoinedTraining(ctx, rows.training_blocks(), settings.training, terms)
    progress = run_epochs(ctx, training, settings.training)
    share = training.weight_share()
    if settings.reveal == "nobody":
        weights = kept_share(share, ctx.local.role == "guest")
    else:
        opening = partial(open_weights, ctx.sub_ctx("finish"), share, settings.reveal)
        weights = Together(ctx)("weights", opening)
    model = JoinedModel(
        header=tuple(rows.features), own_columns=rows.alignment.own, family=settings.training.family,
        fit_intercept=settings.training.init_param["fit_intercept"], reveal=settings.reveal, run=terms["run"],
        origin=origin, weights=weights,
    )  # fmt: skip
    return model, progress
