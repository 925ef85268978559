"""What a hostile reading got through whole jobs: a union, a second name, another mechanism, another role, an exact bit."""

import numpy as np
import pytest

from fate_dp.privacy.labels.flipback import are_marked

from . import homo_gbdt_parties
from . import test_score_releases as releases
from .scenarios import GUEST, HOST, SOURCE, Artifact, Scenario, declare, flip, frame_at, play, role_of, tables, train
from .test_dp_binning import binned
from .test_dp_scorecard import train as scorecard
from .test_noise import noisy

ARBITER, PAIR = ("arbiter", "10002"), (GUEST, HOST)
EVERYBODY = (GUEST, HOST, ARBITER)
OTHER = "experiment/other/y"
ROWS = 400
TABLES = tables(rows=ROWS, guest=3, hosts=(3,))
HORIZONTAL = {GUEST: TABLES[GUEST], HOST: TABLES[GUEST].assign(id=[f"other {row}" for row in range(ROWS)])}
RANGES = {"columns": {}, "other_columns": {"range": [-3, 3], "bins": 4}}
TREES = {"trees": 6, "rounds": 3, "depth": 3, "records": 2 * ROWS, "relation": "replace_one", "delta": 1e-5}
FEW = TABLES[HOST].assign(x3=np.arange(ROWS) % 19 / 10.0)
MORE = FEW.assign(x3=[1.9, *FEW["x3"][1:]])
"""Neighbours: a column of 19 values, and of 20 once a record is replaced."""


def with_policy(ctx, earlier, inner, policy, **arguments):
    from fate_dp.components.common.charges import home_of
    from fate_dp.privacy.private_files import replace_file

    if role_of(ctx) != "arbiter":
        home_of(ctx).ledger.entries()
        replace_file(home_of(ctx).path / "policy.yaml", policy.encode())
    return inner(ctx, earlier, **arguments)


def part(rows):
    return {party: table.iloc[rows].reset_index(drop=True) for party, table in TABLES.items()}


def flip_a_union(ctx, earlier, of, epsilon, source):
    """FATE's Union of the first rows as label_flip wrote them, and of the others as uploaded, then label_flip."""
    from fate.ml.preprocessing import Union

    from fate_dp.components.label_flip import guest
    from fate_dp.components.label_flip.settings import Settings

    first, others, written = part(slice(0, 50)), part(slice(50, ROWS)), Artifact()
    if role_of(ctx) == "guest":
        first = {**first, GUEST: earlier[of].value["table"]}
        declare(ctx, source)
    table = Artifact(Union().fit(ctx, [frame_at(ctx, first), frame_at(ctx, others)]))
    if role_of(ctx) == "guest":
        guest.flip(ctx, Settings(epsilon=epsilon, classes=(0.0, 1.0), label_source=source), table, written, None)
    else:
        guest.pass_on(ctx, table, written)


def with_one_flip(ctx, earlier, change=lambda table: table):
    """At the guest FATE's Union of one row of label_flip's table and the rest of flipback's; a host's table is its own."""
    from fate.ml.preprocessing import Union

    if role_of(ctx) != "guest":
        return {HOST: change(releases.TABLES[HOST])}
    flips, derived = (change(earlier[name].value["table"]) for name in ("flips", "derived"))
    parts = frame_at(ctx, {GUEST: flips.head(1)}), frame_at(ctx, {GUEST: derived.iloc[1:]}, label_type="float64")
    return {GUEST: Union().fit(ctx, list(parts))}


def binned_union(ctx, earlier, **given):
    return binned(ctx, earlier, with_one_flip(ctx, earlier), **RANGES, **given)


def in_bins(table):
    return table.assign(**{name: np.digitize(table[name], (-0.7, 0, 0.7)) for name in table if name.startswith("x")})


def carded_union(ctx, earlier, **given):
    return scorecard(ctx, earlier, tables=with_one_flip(ctx, earlier, in_bins), public=False, **given)


def start(seed):
    return {"method": "kaiming", "fill_val": 0.0, "fit_intercept": True, "random_state": seed}


LABELS = {"privacy": "label", "epsilon": 1.0, "delta": 1e-6}
CAP_1 = f"label_sources: {{{SOURCE}: {{cap: 1.0}}}}\n"
MODEL = {"init_param": start(1), "epochs": 2, "tol": 0, "flipback": {"mode": "none"}, "train_scores": True}
TWO_CAPS = f"label_sources: {{{SOURCE}: {{cap: 4}}, {OTHER}: {{cap: 1.4}}}}\n"
ONE_CAP = "default_label_cap: 1.0\ndefault_dataset_cap: {epsilon: 1.0, delta: 1.0e-5}\n"
NOISE = {"public": True, "tol": 0, "train_scores": False, "privacy": "record", "epochs": 2}
NOISE["by_party"] = {party: {"epsilon": 1.0} for party in PAIR}
ALLOWED = {
    "all of it": Scenario(flip, {"tables": TABLES, "epsilon": 7.0}, PAIR, "two sources"),
    "a few flips": Scenario(flip, {"tables": part(slice(0, 50)), "epsilon": 0.5}, PAIR, "two sources"),
    "flips": Scenario(flip, {"tables": releases.TABLES, "epsilon": 0.5}, PAIR, "derived"),
    "model": Scenario(train, {"tables": releases.TABLES, "labels_of": "flips", **MODEL}, EVERYBODY, "derived"),
    "derived": Scenario(
        releases.revise,
        {"labels_of": "flips", "scores_of": "model", "rows": 100, "mode": "swap", "fraction": 0.3},
        PAIR,
        "derived",
    ),
    "flips at the cap": Scenario(
        with_policy,
        {"inner": flip, "policy": CAP_1, "tables": TABLES, "epsilon": 1.0, "declared": False},
        PAIR,
        "one cap",
    ),
    "a source with a small cap": Scenario(
        with_policy,
        {"inner": flip, "policy": TWO_CAPS, "tables": TABLES, "epsilon": 0.5, "source": OTHER, "declared": False},
        PAIR,
        "two caps",
    ),
    "labels binned": Scenario(
        with_policy, {"inner": binned, "policy": ONE_CAP, "tables": TABLES, **RANGES, **LABELS}, PAIR, "two roles"
    ),
}
REFUSED = {
    "a union under another name": Scenario(
        flip_a_union, {"of": "a few flips", "epsilon": 7.0, "source": OTHER}, PAIR, "two sources"
    ),
    "bins of all but one derived label": Scenario(binned_union, {"privacy": "record", "epsilon": 1.0}, PAIR, "derived"),
    "scorecard of all but one derived label": Scenario(
        carded_union, {"privacy": "record", "epsilon": 1.0, "delta": 1e-6}, PAIR, "derived"
    ),
    "bins of spent labels": Scenario(binned, {"tables": TABLES, **RANGES, **LABELS}, PAIR, "one cap"),
    "flips under the larger cap": Scenario(
        flip, {"tables": part(slice(0, 100)), "epsilon": 1.0, "declared": False}, PAIR, "two caps"
    ),
    "trees on binned labels": Scenario(
        homo_gbdt_parties.train,
        {"tables": HORIZONTAL, "other_columns": {"range": [-3, 3], "bins": 6}, "epsilon": 0.98, **TREES},
        EVERYBODY,
        "two roles",
    ),
}
NEIGHBOURS = {
    str(values): Scenario(noisy, {"tables": {GUEST: TABLES[GUEST], HOST: table}, **NOISE}, EVERYBODY)
    for values, table in ((19, FEW), (20, MORE))
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return play({**ALLOWED, **REFUSED, **NEIGHBOURS}, tmp_path_factory.mktemp("homes"), EVERYBODY)


@pytest.mark.parametrize("name", ALLOWED)
def test_what_leads_there_is_allowed(runs, name):
    assert not any(outcome.error for outcome in runs[name].values()), runs[name]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a union under another name", "has spent epsilon 7.5, this job asks for 7"),
        ("bins of all but one derived label", "The labels went through flipback"),
        ("scorecard of all but one derived label", "The labels went through flipback"),
        ("bins of spent labels", f"The label source {SOURCE} has spent epsilon 0.999999, this step asks for"),
        ("trees on binned labels", "total"),
        ("flips under the larger cap", "this job asks for 1 (total 1.5), and the cap is 1.4"),
    ],
)
def test_it_is_refused_at_every_party(runs, name, why):
    errors = [outcome.error for outcome in runs[name].values()]
    assert all(errors) and any(why in error for error in errors), errors


def test_every_row_of_flipback_says_that_it_is_derived(runs):
    assert are_marked(runs["derived"][GUEST].value["table"]["y"].to_numpy()).all()


def test_a_host_that_bought_noise_tells_no_exact_bit_of_its_columns(runs):
    told = [
        [
            value["facts"]["few_valued"]
            for sender, called, value in runs[name][GUEST].received
            if called == "preflight" and sender.startswith("host")
        ]
        for name in NEIGHBOURS
    ]
    assert told[0] == told[1] == [False]
