"""The train stage of dp_hetero_lr, one function per role."""
import logging
from functools import partial
from typing import Optional

from fate_dp.components.common.parties import check_roles, data_parties
from fate_dp.components.common.party_home import home_of, job_of
from fate_dp.components.common.preflight import agree
from fate_dp.components.common.provenance import (
    derived_labels,
    find_label_privacy,
    record_use,
    refuse_true_labels_of_released_records,
    remember_scores,
)
from fate_dp.components.common.record_stream import alignment_digest
from fate_dp.components.common.summary import show_summary

from .classes import check_hosts_classes, class_names, declared_classes, models_of, parameter_of
from .cross_product.mean_squares import mean_square_bits
from .few_values import refusal
from .figures import TRAINING_ROWS, VALIDATION_ROWS, figures, fitted_to
from .model import PartyModel, initial_weights
from .noised.joint_noise import noise_terms
from .noised.own_noise import OwnNoise
from .noised.rules import check_settings, is_noised, without_flipback
from .noised.training import serve_training, train
from .noisy_targets import equivalent_epsilon
from .predict import ask_scores, check_scored_rows, give_scores, prediction_frame
from .relabelling import Relabelling
from .rows import labels_of, prepare_rows
from .score_release import ScoreRelease
from .settings import TrainSettings, check_few_valued_batches
from .shown_scores import NOT_ASKED, SHOWN, ask_consent, give_where_all_consent, left_out
from .solvers import PER_EPOCH, roles_of, solver_of
from .summary import guest_summary, host_summary
from .terms import (
    OwnPart,
    accept_terms,
    check_aligned,
    check_guest,
    check_host,
    check_hosts,
    check_labels,
    feature_counts,
    host_facts,
    score_epochs,
    training_terms,
)
from .warm_start import check_same_classes, check_same_run, check_warm_start, run_of

logger = logging.getLogger(__name__)

SCORES_OF_TRAINING, SCORES_OF_VALIDATION = "joint scores of training rows", "joint scores of validation rows"


def train_guest(ctx, settings: TrainSettings, train_data, validate_data, warm_start: Optional[dict]):
    """Returns the guest's JSON model and its prediction frame (None without train_scores, or where a host shows none)."""
    settings = without_flipback(settings)
    check_roles(ctx, arbiter=solver_of(settings) == PER_EPOCH)
    home, fit_intercept = home_of(ctx), settings.init_param["fit_intercept"]
    known = {}

    def check():
        check_settings(settings, warm_start)
        check_guest(train_data, settings, warm_start)
        check_warm_start(ctx, settings, warm_start)
        known["privacy"] = find_label_privacy(home, train_data, settings.label_source)
        if is_noised(settings) and known["privacy"].derived:
            raise derived_labels()
        known["privacy"].refuse_numbers(settings.family)
        known["classes"] = declared_classes(home, settings, known["privacy"])
        check_same_classes(warm_start, known["classes"])
        check_labels(train_data, settings.family, known["classes"])
        if validate_data is not None:
            check_scored_rows(validate_data, train_data.schema.columns.to_list())
            known["validation"] = refuse_true_labels_of_released_records(home, validate_data)
        known["rows"] = prepare_rows(train_data, fit_intercept=fit_intercept, with_label=True)
        known["noise"] = OwnNoise.of(ctx, settings, train_data, intercept=fit_intercept, has_target=True)
        known["mean_square_bits"] = _mean_square_bits(settings, known["rows"], train_data)
        known["relabelling"] = Relabelling(settings, labels_of(known["rows"]), known["privacy"])
        return {}

    def commit(hosts):
        rounds, known["flipback"] = planned_rounds(settings, known["relabelling"], hosts, warm_start)
        shows = settings.train_scores or validate_data is not None
        check_hosts(train_data, hosts, len(score_epochs(settings, rounds, warm_start)), shows_afterwards=shows)
        check_hosts_classes(known["classes"], hosts)
        check_same_run(warm_start, hosts)
        if validate_data is not None:
            check_aligned(validate_data, {name: facts["validation_digest"] for name, facts in hosts.items()})
        features = feature_counts(train_data, fit_intercept, hosts)
        if any(facts["few_valued"] for facts in hosts.values()):
            columns = sum(features) + models_of(known["classes"]) - 1
            check_few_valued_batches(train_data.shape[0], settings.batch_size, columns)
        bits = max([known["mean_square_bits"], *(facts["mean_square_bits"] for facts in hosts.values())])
        of_hosts = {name: facts["noise"] for name, facts in hosts.items()}
        noise = noise_terms(_facts(known["noise"]), of_hosts, train_data.shape[0])
        epsilon = equivalent_epsilon(known["privacy"], known["relabelling"].labels)
        terms = training_terms(
            settings, train_data.shape[0], features, epsilon, warm_start, rounds, bits, noise, known["classes"]
        )
        if noise:
            known["noise"].charge(noise)
        record_use(home, known["privacy"], job_of(ctx), train_data.shape[0])
        return terms

    terms = agree(ctx, check, commit)
    model = start_model(ctx, settings, train_data, terms, warm_start, fit_intercept)
    fit = roles_of(settings).guest.train
    train(fit, ctx.sub_ctx("train"), known["rows"], model, terms, known["relabelling"], known["noise"])
    privacy, mode = known["privacy"].after(warm_start), known["relabelling"].mode_that_ran
    document = model.to_json(class_names(terms["classes"]), privacy.to_json(mode))
    training, validation, told = _scored(ctx, settings, document, train_data, validate_data)
    if training is not None:
        fitted = fitted_to(settings, terms, mode, warm_start)
        told.update(figures(TRAINING_ROWS, training, document, known["privacy"], fitted=fitted))
    if validation is not None:
        told.update(figures(VALIDATION_ROWS, validation, document, known["validation"]))
    show_summary(ctx, {**guest_summary(model, terms, privacy, mode), **known["flipback"], **told})
    return document, _together(training, validation)


def train_host(ctx, settings: TrainSettings, train_data, validate_data, warm_start: Optional[dict]) -> dict:
    """Returns the host's JSON model."""
    settings = without_flipback(settings)
    check_roles(ctx, arbiter=solver_of(settings) == PER_EPOCH)
    home, job, known = home_of(ctx), job_of(ctx), {}

    def check():
        check_settings(settings, warm_start)
        check_host(train_data, settings, warm_start)
        check_warm_start(ctx, settings, warm_start)
        known["release"] = ScoreRelease.of(home, job, train_data, "train_data")
        known["rows"] = prepare_rows(train_data, fit_intercept=False, with_label=False)
        known["noise"] = OwnNoise.of(ctx, settings, train_data)
        bits = known["mean_square_bits"] = _mean_square_bits(settings, known["rows"], train_data)
        facts = {**host_facts(train_data, known["release"], known["rows"]), "mean_square_bits": bits, "noise": _facts(known["noise"])}
        facts["warm_start_run"], known["few_valued"] = run_of(warm_start), facts["few_valued"]
        facts["classes"] = parameter_of(settings)
        if validate_data is not None:
            check_scored_rows(validate_data, train_data.schema.columns.to_list())
            known["validation"] = ScoreRelease.of(home, job, validate_data, "validate_data")
            facts["validation_digest"] = alignment_digest(validate_data)
        return facts

    terms = agree(ctx, check)
    release, noise = known["release"], known["noise"]
    own = own_part(ctx, train_data, known["mean_square_bits"])
    accept_terms(terms, settings, train_data.shape[0], warm_start, own, noise)
    if known["few_valued"]:
        columns = sum(terms["features"]) + models_of(terms["classes"]) - 1
        check_few_valued_batches(train_data.shape[0], settings.batch_size, columns)
    if known["few_valued"] and (terms["score_epochs"] or settings.train_scores or validate_data is not None):
        raise ValueError(refusal("This host"))
    if noise is not None:
        noise.charge(terms["noise"])
    release.remember_training(train_data)
    model = start_model(ctx, settings, train_data, terms, warm_start, fit_intercept=False)
    model.few_valued = known["few_valued"]
    train(roles_of(settings).host.train, ctx.sub_ctx("train"), known["rows"], model, terms, release, noise)
    document, told = model.to_json(class_names(terms["classes"]), {}), {}

    def give(step, frame, count):
        count()
        give_scores(ctx.sub_ctx(step), frame, document, settings.score_step)

    if settings.train_scores:
        counted = partial(release.record_all, model.columns, "prediction on training rows")
        consents = release.allows(model.columns)
        shown = give_where_all_consent(ctx.sub_ctx("predict"), consents, partial(give, "predict", train_data, counted))
        told[SCORES_OF_TRAINING] = SHOWN if shown else release.left_out(consents)
    if validate_data is not None:
        validation = known["validation"]
        noted = partial(validation.record_prediction, validate_data, model.columns)
        consents = validation.allows_prediction(validate_data, model.columns)
        shown = give_where_all_consent(
            ctx.sub_ctx("validate_predict"), consents, partial(give, "validate_predict", validate_data, noted)
        )
        told[SCORES_OF_VALIDATION] = SHOWN if shown else validation.left_out(consents)
    show_summary(ctx, {**host_summary(model, release), **told})
    return document


def train_arbiter(ctx, settings: TrainSettings) -> dict:
    """Returns the arbiter's JSON model: progress only, since it learns nothing else."""
    check_roles(ctx, arbiter=solver_of(settings) == PER_EPOCH)
    terms = agree(ctx, dict)
    epochs_run = serve_training(roles_of(settings).arbiter, ctx.sub_ctx("train"), settings, terms)
    return {"data": {"epochs_run": epochs_run}, "meta": {"epochs": settings.epochs, "he_param": settings.he_param}}


def start_model(ctx, settings, frame, terms, warm_start, fit_intercept) -> PartyModel:
    """A fresh model, or one that goes on from ``warm_start``."""
    if warm_start is not None:
        return PartyModel.from_json(warm_start, settings)
    header = frame.schema.columns.to_list()
    start = partial(initial_weights, settings.init_param, len(header), home_of(ctx).key, fit_intercept)
    columns = [start(model) for model in range(models_of(terms["classes"]))]
    return PartyModel(settings, header, columns, terms["optimizer"], fit_intercept)


def planned_rounds(settings: TrainSettings, relabelling: Relabelling, hosts: dict, warm_start) -> tuple:
    """Epochs with a round of flipback, and what the summary says of it.

    Mode auto chooses what helps, so it chooses none where a host shows no joint scores: the job need not fail for it.
    """
    rounds = relabelling.epochs(settings.epochs)
    if settings.flipback.mode != "auto" or not rounds:
        return rounds, {}
    needed = len(score_epochs(settings, rounds, warm_start))
    refusing = [name for name, facts in hosts.items() if facts["few_valued"] or facts["score_releases_left"] < needed]
    if not refusing:
        return rounds, {}
    relabelling.leave_out()
    told = f"none: too few releases of joint scores are left, or columns take few values, at {', '.join(refusing)}"
    logger.warning("flipback mode is %s", told)
    return [], {"flipback mode": told}


def own_part(ctx, frame, bits: int) -> OwnPart:
    """What this host told of itself, for `accept_terms`."""
    position = data_parties(ctx).index(tuple(ctx.federation.local_party))
    return OwnPart(position, len(frame.schema.columns), bits)


def _mean_square_bits(settings, rows, frame) -> int:
    """0 with noise: what is told of the rows then is their radius, a public number that they are clipped to."""
    return 0 if is_noised(settings) else mean_square_bits(settings, rows, frame)


def _facts(noise: Optional[OwnNoise]) -> Optional[dict]:
    return None if noise is None else noise.facts


def _scored(ctx, settings, document, train_data, validate_data) -> tuple:
    """Prediction frames of the training and of the validation rows, None for what no host shows, and what the summary
    says of them.
    """
    from fate.ml.utils.predict_tools import TRAIN_SET, VALIDATE_SET

    training, validation, told = None, None, {SCORES_OF_TRAINING: NOT_ASKED}
    if settings.train_scores:
        refusing = ask_consent(ctx.sub_ctx("predict"), "training rows")
        told[SCORES_OF_TRAINING] = left_out(refusing) if refusing else SHOWN
        if not refusing:
            scores = ask_scores(ctx.sub_ctx("predict"), train_data, document, settings.score_step)
            training = prediction_frame(train_data, scores, document, TRAIN_SET)
            remember_scores(home_of(ctx), training, document)
    if validate_data is not None:
        refusing = ask_consent(ctx.sub_ctx("validate_predict"), "validation rows")
        told[SCORES_OF_VALIDATION] = left_out(refusing) if refusing else SHOWN
        if not refusing:
            scores = ask_scores(ctx.sub_ctx("validate_predict"), validate_data, document, settings.score_step)
            validation = prediction_frame(validate_data, scores, document, VALIDATE_SET)
    return training, validation, told


def _together(*frames):
    """One frame of those that there are, None without any."""
    from fate.arch.dataframe import DataFrame

    there = [frame for frame in frames if frame is not None]
    return DataFrame.vstack(there) if len(there) > 1 else (there[0] if there else None)
