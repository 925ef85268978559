"""The cross_validation stage: k folds, each trained like a training of its own and scored on its held-out rows.

Every fold shows the guest the scores of another model, so each host's ledger counts one release a fold, one for each of more
than two classes, beside those of flipback; all of them are agreed on before the first fold.
"""
from fate_dp.components.common.parties import check_roles, others
from fate_dp.components.common.party_home import home_of, job_of
from fate_dp.components.common.preflight import agree
from fate_dp.components.common.provenance import find_label_privacy, record_use
from fate_dp.components.common.summary import show_summary

from .classes import check_hosts_classes, class_names, declared_classes, models_of, parameter_of
from .cross_product.mean_squares import mean_square_bits
from .few_values import refusal
from .figures import FOLD_ROWS, figures
from .noised.rules import refuse_folds
from .noisy_targets import equivalent_epsilon
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
from .train import own_part, start_model

# Which rows a fold trains on and which it holds out: a table of sample ids with their places in the guest's part.
FOLD_PARTS = ("training_rows", "held_out_rows")


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
        known["privacy"].refuse_numbers(settings.family)
        known["classes"] = declared_classes(home, settings, known["privacy"])
        check_labels(cv_data, settings.family, known["classes"])
        return {}

    def commit(hosts):
        planned = settings.flipback.planned_epochs(settings.epochs) if known["privacy"].private else []
        check_hosts_classes(known["classes"], hosts)
        planned = [] if models_of(known["classes"]) > 1 else planned
        of_fold = len(score_epochs(settings, planned, None)) + models_of(known["classes"])
        check_hosts(cv_data, hosts, folds["n_splits"] * of_fold)
        known["features"] = feature_counts(cv_data, fit_intercept, hosts)
        rows, epsilon = _fold_rows(cv_data, folds), known["privacy"].epsilon
        training_terms(settings, rows, known["features"], epsilon, None, [], classes=known["classes"])
        record_use(home, known["privacy"], job_of(ctx), cv_data.shape[0])
        return {}

    agree(ctx, check, commit)
    for fold_ctx, (training, held_out) in _folds(ctx, "guest", cv_data, folds):
        rows = prepare_rows(training, fit_intercept=fit_intercept, with_label=True)
        relabelling = Relabelling(settings, labels_of(rows), known["privacy"])
        rounds = relabelling.epochs(settings.epochs)
        bits = max([mean_square_bits(settings, rows, training), *fold_ctx.hosts.get("mean_square_bits")])
        epsilon = equivalent_epsilon(known["privacy"], relabelling.labels)
        terms = training_terms(
            settings, training.shape[0], known["features"], epsilon, None, rounds, bits, classes=known["classes"]
        )
        for party in others(fold_ctx):
            party.put("terms", terms)
        model = start_model(fold_ctx, settings, training, terms, None, fit_intercept)
        model.of_fold = True
        roles_of(settings).guest.train(fold_ctx.sub_ctx("train"), rows, model, terms, relabelling)
        document = model.to_json(class_names(terms["classes"]), known["privacy"].to_json(relabelling.mode_that_ran))
        scores = ask_scores(fold_ctx.sub_ctx("predict"), held_out, document, settings.score_step)
        scored = prediction_frame(held_out, scores, document, VALIDATE_SET)
        shown = figures(FOLD_ROWS, scored, document, known["privacy"])
        summary = guest_summary(model, terms, known["privacy"], relabelling.mode_that_ran)
        show_summary(fold_ctx, {**summary, **shown})
        yield scored


def validate_host(ctx, settings, folds, cv_data) -> None:
    check_roles(ctx, arbiter=solver_of(settings) == PER_EPOCH)
    home, job, known = home_of(ctx), job_of(ctx), {}

    def check():
        refuse_folds(settings)
        check_host(cv_data, settings, None)
        known["release"] = ScoreRelease.of(home, job, cv_data)
        rows = prepare_rows(cv_data, fit_intercept=False, with_label=False)
        facts = host_facts(cv_data, known["release"], rows)
        known["few_valued"] = facts["few_valued"]
        return {**facts, "classes": parameter_of(settings)}

    agree(ctx, check)
    if known["few_valued"]:
        raise ValueError(refusal("This host"))
    known["release"].remember_training(cv_data)
    for fold_ctx, (training, held_out) in _folds(ctx, "host", cv_data, folds):
        rows = prepare_rows(training, fit_intercept=False, with_label=False)
        bits = mean_square_bits(settings, rows, training)
        fold_ctx.guest.put("mean_square_bits", bits)
        terms = fold_ctx.guest.get("terms")
        accept_terms(terms, settings, training.shape[0], None, own_part(ctx, cv_data, bits))
        model = start_model(fold_ctx, settings, training, terms, None, fit_intercept=False)
        roles_of(settings).host.train(fold_ctx.sub_ctx("train"), rows, model, terms, known["release"])
        known["release"].record_all(model.columns, "cross-validation")
        document = model.to_json(class_names(terms["classes"]), {})
        give_scores(fold_ctx.sub_ctx("predict"), held_out, document, settings.score_step)


def validate_arbiter(ctx, settings, folds) -> None:
    check_roles(ctx, arbiter=solver_of(settings) == PER_EPOCH)
    agree(ctx, dict)
    for fold_ctx, _ in ctx.on_cross_validations.ctxs_zip(range(folds["n_splits"])):
        terms = fold_ctx.guest.get("terms")
        roles_of(settings).arbiter.serve_training(fold_ctx.sub_ctx("train"), settings, terms)


def _folds(ctx, role, frame, folds):
    return ctx.on_cross_validations.ctxs_zip(_parts(ctx.sub_ctx("KFold"), role, frame, folds))


def _parts(ctx, role, frame, folds):
    """The folds of FATE's KFold, whose own message, a pair of tables, is no plain value: here each table is a message."""
    from fate.arch.dataframe import KFold

    splits = KFold(ctx, mode="homo", **folds).split(frame) if role == "guest" else None
    for _, fold_ctx in ctx.ctxs_range(folds["n_splits"]):
        if role == "guest":
            parts = next(splits)
            for name, part in zip(FOLD_PARTS, parts):
                fold_ctx.hosts.put(name, part.get_indexer(target="sample_id"))
            yield parts
        else:
            yield tuple(frame.loc(fold_ctx.guest.get(name), preserve_order=True) for name in FOLD_PARTS)


def _fold_rows(frame, folds) -> int:
    """Rows of the smallest training part."""
    rows = frame.shape[0]
    return rows - -(-rows // folds["n_splits"])
