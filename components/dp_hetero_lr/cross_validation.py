"""The cross_validation stage: k folds, each trained like a training of its own and scored on its held-out rows.

Every fold shows the guest the scores of another model, so each host's ledger counts one release a fold, beside those
of flipback; all of them are agreed on before the first fold.
"""
from fate_dp.components.common.parties import check_roles, others
from fate_dp.components.common.party_home import home_of, job_of
from fate_dp.components.common.preflight import agree
from fate_dp.components.common.provenance import find_label_privacy, record_use
from fate_dp.components.common.summary import show_summary

from .cross_product.mean_squares import mean_square_bits
from .noised.rules import refuse_folds
from .predict import ask_scores, give_scores, prediction_frame
from .relabelling import Relabelling
from .rows import labels_of, prepare_rows
from .score_release import ScoreRelease
from .solvers import PER_EPOCH, roles_of, solver_of
from .summary import guest_summary
from .terms import (
    accept_terms,
    check_guest,
    check_host,
    check_hosts,
    check_labels,
    feature_counts,
    host_facts,
    score_epochs,
    training_terms,
)
from .train import LABELS, start_model


def validate_guest(ctx, settings, folds, cv_data):
    """Yields the prediction frame of each fold's held-out rows, scored against the (flipped) labels they have."""
    from fate.ml.utils.predict_tools import VALIDATE_SET

    check_roles(ctx, arbiter=solver_of(settings) == PER_EPOCH)
    home, fit_intercept = home_of(ctx), settings.init_param["fit_intercept"]
    known = {}

    def check():
        refuse_folds(settings)
        check_guest(cv_data, settings, None)
        known["privacy"] = find_label_privacy(home, cv_data, settings.label_source)
        check_labels(cv_data, settings.family)
        return {}

    def commit(hosts):
        planned = settings.flipback.planned_epochs(settings.epochs) if known["privacy"].private else []
        check_hosts(cv_data, hosts, folds["n_splits"] * (len(score_epochs(settings, planned, None)) + 1))
        known["features"] = feature_counts(cv_data, fit_intercept, hosts)
        training_terms(settings, _fold_rows(cv_data, folds), known["features"], known["privacy"].epsilon, None, [])
        record_use(home, known["privacy"], job_of(ctx), cv_data.shape[0])
        return {}

    agree(ctx, check, commit)
    for fold_ctx, (training, held_out) in _folds(ctx, "guest", cv_data, folds):
        rows = prepare_rows(training, fit_intercept=fit_intercept, with_label=True)
        relabelling = Relabelling(settings, labels_of(rows), known["privacy"])
        rounds = relabelling.epochs(settings.epochs)
        bits = max([mean_square_bits(settings, rows, training), *fold_ctx.hosts.get("mean_square_bits")])
        terms = training_terms(
            settings, training.shape[0], known["features"], known["privacy"].epsilon, None, rounds, bits
        )
        for party in others(fold_ctx):
            party.put("terms", terms)
        model = start_model(fold_ctx, settings, training, terms, None, fit_intercept)
        model.of_fold = True
        roles_of(settings).guest.train(fold_ctx.sub_ctx("train"), rows, model, terms, relabelling)
        show_summary(fold_ctx, guest_summary(model, terms["rows"], known["privacy"], relabelling.mode_that_ran))
        document = model.to_json(LABELS, known["privacy"].to_json(relabelling.mode_that_ran))
        scores = ask_scores(fold_ctx.sub_ctx("predict"), held_out, document)
        yield prediction_frame(held_out, scores, document, VALIDATE_SET)


def validate_host(ctx, settings, folds, cv_data) -> None:
    check_roles(ctx, arbiter=solver_of(settings) == PER_EPOCH)
    home, job, known = home_of(ctx), job_of(ctx), {}

    def check():
        refuse_folds(settings)
        check_host(cv_data, settings, None)
        known["release"] = ScoreRelease.of(home, job, cv_data)
        return host_facts(cv_data, known["release"])

    agree(ctx, check)
    known["release"].remember_training(cv_data)
    for fold_ctx, (training, held_out) in _folds(ctx, "host", cv_data, folds):
        rows = prepare_rows(training, fit_intercept=False, with_label=False)
        fold_ctx.guest.put("mean_square_bits", mean_square_bits(settings, rows, training))
        terms = fold_ctx.guest.get("terms")
        accept_terms(terms, settings, training.shape[0], None)
        model = start_model(fold_ctx, settings, training, terms, None, fit_intercept=False)
        roles_of(settings).host.train(fold_ctx.sub_ctx("train"), rows, model, terms, known["release"])
        known["release"].record(model.weights, "cross-validation")
        give_scores(fold_ctx.sub_ctx("predict"), held_out, model.to_json(LABELS, {}))


def validate_arbiter(ctx, settings, folds) -> None:
    check_roles(ctx, arbiter=solver_of(settings) == PER_EPOCH)
    agree(ctx, dict)
    for fold_ctx, _ in ctx.on_cross_validations.ctxs_zip(range(folds["n_splits"])):
        terms = fold_ctx.guest.get("terms")
        roles_of(settings).arbiter.serve_training(fold_ctx.sub_ctx("train"), settings, terms)


def _folds(ctx, role, frame, folds):
    from fate.arch.dataframe import KFold

    splitter = KFold(ctx, role=role, **folds)
    return ctx.on_cross_validations.ctxs_zip(splitter.split(frame))


def _fold_rows(frame, folds) -> int:
    """Rows of the smallest training part."""
    rows = frame.shape[0]
    return rows - -(-rows // folds["n_splits"])
