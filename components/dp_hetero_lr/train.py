"""The train stage of dp_hetero_lr, one function per role."""
from typing import Optional

from fate_dp.components.common.parties import check_roles
from fate_dp.components.common.party_home import home_of, job_of
from fate_dp.components.common.preflight import agree
from fate_dp.components.common.provenance import (
    find_label_privacy,
    record_use,
    refuse_true_labels_of_released_records,
)
from fate_dp.components.common.record_stream import ids_digest
from fate_dp.components.common.summary import show_summary

from .cross_product.mean_squares import mean_square_bits
from .model import PartyModel, initial_weights
from .noised.joint_noise import noise_terms
from .noised.own_noise import OwnNoise
from .noised.rules import check_settings, is_noised, without_flipback
from .noised.training import serve_training, train
from .predict import ask_scores, check_scored_rows, give_scores, prediction_frame
from .relabelling import Relabelling
from .rows import labels_of, prepare_rows
from .score_release import ScoreRelease
from .settings import TrainSettings
from .solvers import PER_EPOCH, roles_of, solver_of
from .summary import guest_summary, host_summary
from .terms import (
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
from .warm_start import check_same_run, check_warm_start, run_of

LABELS = [0, 1]


def train_guest(ctx, settings: TrainSettings, train_data, validate_data, warm_start: Optional[dict]):
    """Returns the guest's JSON model and its prediction frame (None without train_scores)."""
    settings = without_flipback(settings)
    check_roles(ctx, arbiter=solver_of(settings) == PER_EPOCH)
    home, fit_intercept = home_of(ctx), settings.init_param["fit_intercept"]
    known = {}

    def check():
        check_settings(settings, warm_start)
        check_guest(train_data, settings, warm_start)
        check_warm_start(ctx, settings, warm_start)
        known["privacy"] = find_label_privacy(home, train_data, settings.label_source)
        check_labels(train_data, settings.family)
        if validate_data is not None:
            check_scored_rows(validate_data, train_data.schema.columns.to_list())
            refuse_true_labels_of_released_records(home, validate_data)
        known["rows"] = prepare_rows(train_data, fit_intercept=fit_intercept, with_label=True)
        known["noise"] = OwnNoise.of(ctx, settings, train_data, intercept=fit_intercept, has_target=True)
        known["mean_square_bits"] = _mean_square_bits(settings, known["rows"], train_data)
        known["relabelling"] = Relabelling(settings, labels_of(known["rows"]), known["privacy"])
        return {}

    def commit(hosts):
        rounds = known["relabelling"].epochs(settings.epochs)
        shown = len(score_epochs(settings, rounds, warm_start)) + int(settings.train_scores) + int(validate_data is not None)
        check_hosts(train_data, hosts, shown)
        check_same_run(warm_start, hosts)
        if validate_data is not None:
            check_aligned(validate_data, {name: facts["validation_digest"] for name, facts in hosts.items()})
        features = feature_counts(train_data, fit_intercept, hosts)
        bits = max([known["mean_square_bits"], *(facts["mean_square_bits"] for facts in hosts.values())])
        of_hosts = {name: facts["noise"] for name, facts in hosts.items()}
        noise = noise_terms(_facts(known["noise"]), of_hosts, train_data.shape[0])
        terms = training_terms(
            settings, train_data.shape[0], features, known["privacy"].epsilon, warm_start, rounds, bits, noise
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
    show_summary(ctx, guest_summary(model, terms["rows"], privacy, mode))
    document = model.to_json(LABELS, privacy.to_json(mode))
    return document, _scored(ctx, settings, document, train_data, validate_data)


def train_host(ctx, settings: TrainSettings, train_data, validate_data, warm_start: Optional[dict]) -> dict:
    """Returns the host's JSON model."""
    settings = without_flipback(settings)
    check_roles(ctx, arbiter=solver_of(settings) == PER_EPOCH)
    home, job, known = home_of(ctx), job_of(ctx), {}

    def check():
        check_settings(settings, warm_start)
        check_host(train_data, settings, warm_start)
        check_warm_start(ctx, settings, warm_start)
        known["release"] = ScoreRelease.of(home, job, train_data)
        known["rows"] = prepare_rows(train_data, fit_intercept=False, with_label=False)
        known["noise"] = OwnNoise.of(ctx, settings, train_data)
        bits = _mean_square_bits(settings, known["rows"], train_data)
        facts = {**host_facts(train_data, known["release"]), "mean_square_bits": bits, "noise": _facts(known["noise"])}
        facts["warm_start_run"] = run_of(warm_start)
        if validate_data is not None:
            check_scored_rows(validate_data, train_data.schema.columns.to_list())
            known["validation"] = ScoreRelease.of(home, job, validate_data)
            facts["validation_digest"] = ids_digest(validate_data)
        return facts

    terms = agree(ctx, check)
    release, noise = known["release"], known["noise"]
    accept_terms(terms, settings, train_data.shape[0], warm_start, noise)
    if noise is not None:
        noise.charge(terms["noise"])
    release.remember_training(train_data)
    model = start_model(ctx, settings, train_data, terms, warm_start, fit_intercept=False)
    train(roles_of(settings).host.train, ctx.sub_ctx("train"), known["rows"], model, terms, release, noise)
    document = model.to_json(LABELS, {})
    if settings.train_scores:
        release.record(model.weights, "prediction on training rows")
        give_scores(ctx.sub_ctx("predict"), train_data, document)
    if validate_data is not None:
        known["validation"].record_prediction(validate_data, model.weights)
        give_scores(ctx.sub_ctx("validate_predict"), validate_data, document)
    show_summary(ctx, host_summary(model, release))
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
    weights = initial_weights(settings.init_param, len(header), home_of(ctx).key, fit_intercept)
    return PartyModel(settings, header, weights, terms["optimizer"], fit_intercept)


def _mean_square_bits(settings, rows, frame) -> int:
    """0 with noise: what is told of the rows then is their radius, a public number that they are clipped to."""
    return 0 if is_noised(settings) else mean_square_bits(settings, rows, frame)


def _facts(noise: Optional[OwnNoise]) -> Optional[dict]:
    return None if noise is None else noise.facts


def _scored(ctx, settings, document, train_data, validate_data):
    from fate.arch.dataframe import DataFrame
    from fate.ml.utils.predict_tools import TRAIN_SET, VALIDATE_SET

    frames = []
    if settings.train_scores:
        scores = ask_scores(ctx.sub_ctx("predict"), train_data, document)
        frames.append(prediction_frame(train_data, scores, document, TRAIN_SET))
    if validate_data is not None:
        scores = ask_scores(ctx.sub_ctx("validate_predict"), validate_data, document)
        frames.append(prediction_frame(validate_data, scores, document, VALIDATE_SET))
    return DataFrame.vstack(frames) if len(frames) > 1 else (frames[0] if frames else None)
