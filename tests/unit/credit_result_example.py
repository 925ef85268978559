"""Results such as the credit study makes, with made-up figures, and variants that lack parts."""

from fate_dp.data_prep.lending_club.columns import APPLICATION_TIME, RAW_COLUMNS, STUDY_COLUMNS

SEEDS = (2024, 2025, 2026)
TOO_MANY = "more than a third of its values are missing"
EMPTY = (
    "desc",
    "mths_since_last_record",
    "annual_inc_joint",
    "dti_joint",
    "verification_status_joint",
    "il_util",
    "open_acc_6m",
    "open_il_6m",
    "open_il_12m",
    "open_il_24m",
    "mths_since_rcnt_il",
    "total_bal_il",
    "open_rv_12m",
    "open_rv_24m",
    "max_bal_bc",
    "all_util",
    "inq_fi",
    "total_cu_tl",
    "inq_last_12m",
    "mths_since_last_delinq",
    "mths_since_last_major_derog",
)
EMPTY_IN_ORDER = tuple(column for column in RAW_COLUMNS if column in EMPTY)
MODELS = (
    ("central_scikit", "central, scikit-learn", "All training loans in one place, over-sampled there.", 0.651, 0.699),
    ("central", "central, HomoLR's objective", "The same loans under HomoLR's objective.", 0.6402, 0.6951),
    ("federated", "federated, HomoLR", "Guest and two hosts by the arithmetic of FATE's HomoLR.", 0.6387, 0.6948),
    ("alone_guest_9999", "guest 9999 alone", "Its own quarter of the loans.", 0.6304, 0.6902),
    ("alone_host_10000", "host 10000 alone", "Its own quarter of the loans.", 0.6441, 0.6911),
    ("alone_host_9998", "host 9998 alone", "Its own half of the loans.", 0.6359, 0.6933),
)

# The way to balance and its title; the AUC of scikit-learn, central and federated; the largest influence.
BALANCING = (
    ("none", "no balancing", (0.6943, 0.6421, 0.6429), 0),
    ("class_weights", "class weights", (0.6951, None, None), 0),
    ("smotenc", "SMOTENC", (0.6478, 0.6845, 0.6838), 131),
    ("smote", "plain SMOTE", (0.6919, 0.6877, 0.6875), 40),
    ("smotenc_parents", "SMOTENC-parents", (None, None, None), 0),
)


def example_result():
    """A whole result: three seeds, one of them through FATE-Flow."""
    return {
        "schema": "fate-dp/credit-study/2",
        "created": "2026-11-21T10:04:11+00:00",
        "fate_dp_version": "0.2.0",
        "fate_version": "2.2.0",
        "data": example_data(),
        "settings": {
            "homo_lr": {
                "epochs": 20,
                "learning_rate": 0.01,
                "alpha": 1.0,
                "optimizer": "rmsprop",
                "tol": 1e-4,
                "early_stop": "diff",
                "threshold": 0.5,
            },
            "over_sampling": {"method": "smotenc", "neighbours": 5},
            "seeds": list(SEEDS),
            "flow_seeds": [2024],
            "units": "public",
            "test_share": 0.3,
            "threshold": 0.5,
            "most_missing": 1 / 3,
        },
        "models": [example_model(*model) for model in MODELS],
        "paired": [
            {
                "name": "federated - best alone",
                "title": "federated minus the best alone (host 10000)",
                "measures": {"specificity": spread(-0.0054, 0.004), "auc": spread(0.0015, 0.0004)},
            },
            {
                "name": "federated - central",
                "title": "federated minus central, the same objective",
                "measures": {"specificity": spread(-0.0015, 0.0008), "auc": spread(-0.0003, 0.0002)},
            },
        ],
        "source_figures": {
            "central": {
                "charged_off_precision": 0.28,
                "charged_off_recall": 0.66,
                "charged_off_f1": 0.40,
                "fully_paid_precision": 0.90,
                "fully_paid_recall": 0.65,
                "fully_paid_f1": 0.75,
            }
        },
        "balancing": [example_balancing(*line) for line in BALANCING],
        "evenness": [example_shares(small / 100) for small in (5, 10, 20, 30, 40, 50)],
        "loss": [{"name": "FATE-Flow, seed 2024", "losses": [0.62 + 0.07 * 0.8**epoch for epoch in range(20)]}],
        "early_stop": {"rule": "diff", "tol": 1e-4, "epoch": 17, "epochs_run": 20},
        "flow": [
            {
                "seed": 2024,
                "job_id": "202611211004110000010",
                "seconds": 93.4,
                "measures": {"auc": 0.69481, "ks": 0.28313, "specificity": 0.63871},
                "evaluation": {"auc": 0.69482, "ks": 0.28314},
                "agreement": {
                    "largest_weight_difference": 3.1e-7,
                    "largest_score_difference": 1.2e-7,
                    "spread_by_order": 2.4e-7,
                },
            }
        ],
        "private": example_private(),
        "verdicts": [
            {
                "claim": "The source: federated is far better than each institution alone",
                "holds": False,
                "figures": "Federated minus host 10000, the best alone: -0.005 (-0.015 to +0.005).",
            },
            {"claim": "The federated AUC is within 0.01 of central", "holds": True, "figures": "Difference -0.0003."},
            {"claim": "The more even the shares, the better", "holds": None, "figures": "+0.009 (-0.002 to +0.020)."},
        ],
        "seconds": {"total": 312.6, "steps": [{"name": "clean", "seconds": 2.31}, {"name": "train", "seconds": 41.77}]},
    }


def example_private():
    """Private models by rows and by columns at two epsilons, one without a promise, and a transfer."""
    kinds = (
        ("homo_secure_sum", "rows", "secure sum", (0.686, 0.684)),
        ("homo_smotenc", "rows", "SMOTENC, HomoLR", (0.683,)),
        ("label_flips_regression", "columns", "flips, regression", (0.695, 0.6902)),
    )
    jobs = [
        {"name": name, "seed": seed, "job_id": f"{seed}{number}", "seconds": 41.5}
        for seed in SEEDS
        for number, (name, *_) in enumerate(kinds)
    ]
    spent = {"counted": True, "source": "loans"}
    gaussian = {"mechanism": "PoissonSampledGaussian", "unit": "record", "relation": "add_or_remove", "delta": 1e-5}
    return {
        "seeds": list(SEEDS),
        "parts": ["rows", "columns", "transfer"],
        "epsilons": [4.0, 1.0],
        "delta": 1e-5,
        "models": [
            {
                "kind": kind,
                "part": part,
                "title": title,
                "protects": f"what {title} protects",
                "epsilon": epsilon,
                "measures": example_measures(0.1 if part == "rows" else 0.02, auc),
            }
            for kind, part, title, aucs in kinds
            for epsilon, auc in zip((4.0, 1.0) if len(aucs) == 2 else (None,), aucs)
        ],
        "yardsticks": [
            {"name": name, "title": title, "measures": example_measures(0.6, auc)}
            for name, title, auc in (
                ("central", "central", 0.6951),
                ("alone", "alone (mean of the institutions)", 0.6911),
                ("federated", "federated, SMOTENC", 0.6948),
            )
        ],
        "transfer": [
            {"name": name, "title": title, "measures": example_measures(0.2, auc)}
            for name, title, auc in (
                ("small_alone", "its own loans alone", 0.636),
                ("small_federated", "the others' private model as it is", 0.6855),
                ("small_fine_tuned", "the others' model, fine-tuned on its own loans", 0.69),
            )
        ],
        "jobs": jobs,
        "ledger": [
            {"job_id": "20240", "party": "guest 9999", "epsilon": 3.99998, **gaussian, **spent},
            {"job_id": "20240", "party": "host 10000", "epsilon": 3.99998, **gaussian, **spent},
            {"job_id": "20241", "party": "guest 9999", "mechanism": "over-sampling", "unit": "record", "relation": None}
            | {"epsilon": "infinity", "delta": 0, **spent, "counted": False},
            {"job_id": "20250", "party": "guest 9999", "epsilon": 3.77777, **gaussian, **spent},
        ],
        "constant": ["home_ownership_ANY"],
    }


def example_data():
    """What was read, dropped, shared out and over-sampled."""
    return {
        "source": "lending_club.csv.gz",
        "sha256": "ab12" * 16,
        "synthetic": False,
        "steps": [
            {"name": "read", "rows": 47348, "columns": 74, "note": ""},
            {"name": f"columns dropped: {TOO_MANY}", "rows": 47348, "columns": 53, "note": ", ".join(EMPTY_IN_ORDER)},
            {"name": "rows with a missing value dropped", "rows": 44871, "columns": 18, "note": ""},
            {"name": "Fully Paid and Charged Off kept", "rows": 12913, "columns": 38, "note": "one-hot encoded"},
        ],
        "missing": {column: missing_share(column, place) for place, column in enumerate(RAW_COLUMNS)},
        "dropped_columns": {column: reason(column) for column in RAW_COLUMNS if column not in STUDY_COLUMNS},
        "notices": ["2,477 rows lack a value of the study's columns and were dropped."],
        "rows": 12913,
        "features": 37,
        "train_rows": 9039,
        "test_rows": 3874,
        "balance": {"train_before": counts(1643, 7396), "train_after": counts(7396, 7396), "test": counts(704, 3170)},
        "parties": [
            example_party("guest", "9999", 0.25, 411, 1849, 31),
            example_party("host", "10000", 0.25, 410, 1848, 27),
            example_party("host", "9998", 0.5, 822, 3699, 44),
        ],
    }


def missing_share(column, place):
    """Most of some columns, a little of others, nothing of the rest."""
    if column in EMPTY:
        return 0.51 + 0.48 * place / len(RAW_COLUMNS)
    return {"emp_title": 0.0577, "emp_length": 0.0505, "tot_cur_bal": 0.0792, "revol_util": 0.0002}.get(column, 0.0)


def reason(column):
    if column in EMPTY:
        return TOO_MANY
    if column in APPLICATION_TIME:
        return "not among the study's columns"
    return "not known when the application is decided"


def example_party(role, party_id, share, charged_off, fully_paid, influence):
    return {
        "role": role,
        "party_id": party_id,
        "share": share,
        "before": counts(charged_off, fully_paid),
        "after": counts(fully_paid, fully_paid),
        "largest_influence": influence,
    }


def counts(charged_off, fully_paid):
    return {"Charged Off": charged_off, "Fully Paid": fully_paid}


def example_model(name, title, how, specificity, auc):
    return {"name": name, "title": title, "how": how, "measures": example_measures(specificity, auc)}


def example_measures(specificity, auc):
    means = {
        "auc": auc,
        "ks": auc - 0.41,
        "specificity": specificity,
        "accuracy": 0.6401,
        "charged_off_precision": 0.2811,
        "charged_off_recall": specificity,
        "charged_off_f1": 0.3912,
        "fully_paid_precision": 0.8907,
        "fully_paid_recall": 0.6413,
        "fully_paid_f1": 0.7455,
    }
    return {measure: spread(mean, 0.004) for measure, mean in means.items()}


def example_balancing(method, title, aucs, influence):
    specificity = 0.0027 if method == "none" else 0.6312
    models = {
        name: auc
        and {
            "auc": spread(auc, 0.004),
            "specificity": spread(specificity, 0.002),
            "charged_off_f1": spread(specificity / 2, 0.001),
        }
        for name, auc in zip(("central_scikit", "central", "federated"), aucs)
    }
    difference = spread(aucs[2] - aucs[0], 0.0015) if aucs[2] else None
    return {
        "method": method,
        "title": title,
        "largest_influence": influence,
        **models,
        "federated_minus_scikit": difference,
    }


def example_shares(small):
    even = {"specificity": spread(0.63 + 0.018 * small, 0.006), "auc": spread(0.694 + 0.002 * small, 0.001)}
    alone = [
        {"specificity": spread(0.62 + 0.02 * share, 0.009), "auc": spread(0.67 + 0.025 * share, 0.003)}
        for share in (small, 1 - small)
    ]
    return {"shares": [small, 1 - small], "federated": even, "alone": alone}


def spread(mean, deviation):
    """The interval of three values around a mean; 4.3027 is Student's t at two degrees of freedom."""
    reach = 4.3027 * deviation / 3**0.5
    values = [mean - deviation, mean, mean + deviation]
    return {"mean": mean, "low": mean - reach, "high": mean + reach, "values": values}


def one_seed():
    """The same study with one seed, no interval anywhere, of a file with few columns: they take longest to draw."""
    result = without_intervals(example_result())
    result["private"].update(seeds=[2024], jobs=result["private"]["jobs"][:3], ledger=[])
    result["data"].update(missing={"desc": 0.97, "emp_length": 0.05}, dropped_columns={"desc": TOO_MANY})
    result["settings"]["seeds"] = [2024]
    return result


def without_intervals(part):
    """A copy in which every interval is of a single value."""
    if isinstance(part, dict) and set(part) == {"mean", "low", "high", "values"}:
        return {"mean": part["mean"], "low": None, "high": None, "values": [part["mean"]]}
    if isinstance(part, dict):
        return {name: without_intervals(item) for name, item in part.items()}
    return [without_intervals(item) for item in part] if isinstance(part, list) else part


def bare():
    """Generated loans, one seed, nothing through FATE-Flow, no evenness, nothing claimed, no limit recorded."""
    result = one_seed()
    result["data"].update(synthetic=True, notices=[], dropped_columns={}, missing={})
    result.update(flow=[], balancing=[], evenness=[], loss=[], early_stop=None, paired=[], verdicts=[])
    result.update(source_figures={}, private=None)
    result["settings"].update(flow_seeds=[])
    result["settings"].pop("most_missing")
    return result
