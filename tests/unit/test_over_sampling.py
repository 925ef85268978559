"""Over-sampling: what imbalanced-learn makes, valid one-hots, nothing of the test rows, and the leak avoided."""

import re

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imblearn.over_sampling import SMOTE, SMOTENC
from sklearn.metrics import balanced_accuracy_score
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits

from fate_dp.data_prep.division import split_train_test
from fate_dp.data_prep.over_sampling import (
    METHODS,
    SYNTHETIC_PREFIX,
    OverSampling,
    draw,
    in_own_units,
    influence_of_parents,
    influence_of_voters,
    over_sample,
    over_sample_arrays,
)
from fate_dp.privacy.validation import InvalidArgument

pytestmark = pytest.mark.arithmetic

OWN, PURPOSE = (2, 3), (4, 5, 6, 7)
GROUPS = (OWN, PURPOSE)
NAMES = ["amount", "term", "own_NO", "own_YES", "use_car", "use_home", "use_other", "use_wedding"]
NAMED_GROUPS = tuple(tuple(NAMES[column] for column in group) for group in GROUPS)


def rows(smaller, larger, seed=0):
    """Features (n, 8) with two numbers of very different size and two one-hot groups, and labels (n,)."""
    rng, count = np.random.default_rng(seed), smaller + larger
    features = np.hstack(
        [
            rng.normal(15_000, 8_000, (count, 1)),
            rng.choice([36.0, 60.0], (count, 1)),
            np.eye(2)[rng.integers(0, 2, count)],
            np.eye(4)[rng.choice(4, count, p=[0.6, 0.3, 0.1, 0.0])],
        ]
    )
    return features, np.array([0] * smaller + [1] * larger)


def table(smaller=30, larger=100, seed=0):
    features, labels = rows(smaller, larger, seed)
    frame = pandas.DataFrame(features, columns=NAMES)
    return frame.assign(paid=labels.astype("int8"), id=[f"loan-{number}" for number in range(len(frame))])


def split(frame, seed=5):
    return split_train_test(frame, label="paid", id="id", test_share=0.3, seed=seed)


def enlarged(training, method="smotenc", seed=5, tag="9999"):
    return over_sample(training, OverSampling(method), groups=NAMED_GROUPS, seed=seed, tag=tag)


def refusal(error, sentence):
    return pytest.raises(error, match=f"^{re.escape(sentence)}$")


@given(
    st.integers(6, 25),
    st.integers(6, 60),
    st.integers(1, 5),
    st.integers(0, 2**40),
    st.sampled_from(["smotenc", "smotenc_parents"]),
)
@settings(max_examples=40, deadline=None)
def test_synthetic_rows_fill_the_smaller_class_with_one_hots_between_its_values(few, more, neighbours, seed, method):
    features, labels = rows(few, few + more, seed)
    made = over_sample_arrays(features, labels, OverSampling(method, neighbours), groups=GROUPS, seed=seed)
    smaller = features[labels == 0]
    assert made.features.shape == (more, 8) and made.labels.tolist() == [0] * more
    for group in GROUPS:
        block = made.features[:, group]
        assert set(np.unique(block)) <= {0.0, 1.0} and (block.sum(axis=1) == 1).all()
        assert set(np.flatnonzero(block.sum(axis=0))) <= set(np.flatnonzero(smaller[:, group].sum(axis=0)))
    numeric = made.features[:, :2]
    assert (numeric >= smaller[:, :2].min(axis=0) - 1e-9).all() and (numeric <= smaller[:, :2].max(axis=0) + 1e-9).all()
    assert np.ceil(more / few) <= made.largest_influence <= more


def test_smote_is_that_of_imbalanced_learn_on_columns_in_their_own_units():
    features, labels = rows(15, 60)
    units = np.where(features.std(axis=0) > 0, features.std(axis=0), 1)
    made = over_sample_arrays(features, labels, OverSampling("smote"), groups=GROUPS, seed=3)
    reference, _ = SMOTE(random_state=random_state(3)).fit_resample(features / units, labels)
    np.testing.assert_allclose(made.features, reference[75:] * units, rtol=1e-9, atol=1e-9)
    fractions = made.features[:, OWN]
    assert ((fractions > 0.01) & (fractions < 0.99)).any()


def test_smotenc_is_that_of_imbalanced_learn_but_for_ties_of_votes():
    features, labels = rows(60, 200)
    numeric = np.random.default_rng(1).normal(size=(260, 3)) @ np.diag([3.0, 700.0, 0.02])
    categories = np.column_stack([features[:, group].argmax(axis=1) for group in GROUPS])
    units = numeric.std(axis=0)
    one_hot = [np.eye(size)[column] for size, column in zip((2, 4), categories.T)]
    made = over_sample_arrays(
        np.hstack([numeric, *one_hot]), labels, OverSampling(), groups=((3, 4), (5, 6, 7, 8)), seed=3
    ).features
    encoded = np.hstack([numeric / units, categories])
    reference = SMOTENC([3, 4], random_state=random_state(3)).fit_resample(encoded, labels)[0][260:]
    np.testing.assert_allclose(made[:, :3], reference[:, :3] * units, rtol=1e-9)
    # Five neighbours never tie over two categories; over the three that occur they do now and then.
    assert (made[:, 3:5].argmax(axis=1) == reference[:, 3]).all()
    assert 0.8 < (made[:, 5:].argmax(axis=1) == reference[:, 4]).mean() <= 1


def test_smotenc_parents_takes_each_category_from_the_parent_that_the_row_lies_nearer_to_more_often():
    features = np.vstack([np.tile([[0.0, 1, 0], [1.0, 0, 1]], (10, 1)), np.tile([5.0, 1, 0], (4020, 1))])
    labels = np.array([0] * 20 + [1] * 4020)
    made = over_sample_arrays(features, labels, OverSampling("smotenc_parents", 19), groups=((1, 2),), seed=7).features
    between = made[(made[:, 0] > 0) & (made[:, 0] < 1)]
    # The number says how far the row lies towards the parent of the second category.
    for low in (0.0, 0.25, 0.5, 0.75):
        near = between[(between[:, 0] >= low) & (between[:, 0] < low + 0.25)]
        assert len(near) > 400 and abs(near[:, 2].mean() - near[:, 0].mean()) < 5 * 0.5 / np.sqrt(len(near))


def test_frequent_categories_crowd_out_the_rest_under_smotenc_and_not_under_smotenc_parents():
    rng = np.random.default_rng(3)
    features = np.hstack([rng.normal(size=(900, 14)), np.eye(3)[rng.choice(3, 900, p=[0.6, 0.3, 0.1])]])
    labels = np.array([0] * 300 + [1] * 600)
    shares = {
        method: over_sample_arrays(features, labels, OverSampling(method), groups=((14, 15, 16),), seed=1)
        .features[:, 14]
        .mean()
        for method in ("smotenc", "smotenc_parents")
    }
    real = features[:300, 14].mean()
    assert shares["smotenc"] > real + 0.1 and abs(shares["smotenc_parents"] - real) < 0.06


def random_state(seed):
    from fate_dp.data_prep.division import seed_sequence

    return np.random.RandomState(np.random.MT19937(seed_sequence(seed, "over-sampling", "")))


def test_ties_of_votes_are_decided_by_chance_and_by_nothing_else():
    features = np.hstack([np.arange(6.0)[:, None], np.eye(3)[[0, 1, 2, 2, 2, 2]]])
    smaller, larger = features[:3], np.tile(features[3:], (200, 1))
    labels = np.array([0] * 3 + [1] * 600)
    made = over_sample_arrays(
        np.vstack([smaller, larger]), labels, OverSampling(neighbours=2), groups=((1, 2, 3),), seed=1
    ).features
    # Each of three rows has the two others as neighbours, of two categories: every category wins a third of the draws.
    np.testing.assert_allclose(made[:, 1:].mean(axis=0), 1 / 3, atol=0.08)


def test_neighbours_do_not_depend_on_the_units_of_a_column():
    features, labels = rows(40, 100)
    scale = np.array([1e-6, 1e5, *[1] * 6])
    for method in METHODS:
        made, scaled = (
            over_sample_arrays(values, labels, OverSampling(method), groups=GROUPS, seed=2).features
            for values in (features, features * scale)
        )
        np.testing.assert_allclose(scaled, made * scale, rtol=1e-9, atol=1e-12)


def test_a_constant_column_stays_as_it_is_to_the_bit_and_has_no_say():
    features, labels = rows(40, 100)
    constant = features.copy()
    constant[:, 1] = 0.1
    made = over_sample_arrays(constant, labels, OverSampling(), groups=GROUPS, seed=2).features
    assert (made[:, 1] == 0.1).all()
    assert (in_own_units(constant)[:, 1] == in_own_units(constant)[0, 1]).all()
    moved = over_sample_arrays(constant + 1e6 * np.eye(8)[1], labels, OverSampling(), groups=GROUPS, seed=2).features
    np.testing.assert_array_equal(np.delete(moved, 1, axis=1), np.delete(made, 1, axis=1))
    assert np.isfinite(in_own_units(np.array([[0.0], [1e-200]]))).all()


@pytest.mark.parametrize("method", METHODS)
def test_the_largest_influence_counts_what_was_drawn(method):
    features, labels = rows(12, 60)
    result = over_sample_arrays(features, labels, OverSampling(method, 3), groups=GROUPS, seed=4)
    numeric, one_hot = in_own_units(features[:, :2]), features[:, 2:]
    weight = np.median(numeric[labels == 0].std(axis=0)) / np.sqrt(2)
    positions = in_own_units(features) if method == "smote" else np.hstack([numeric, one_hot * weight])
    drawn = draw(positions, labels == 0, 3, random_state(4))
    counts = [0] * 12
    for first, second in zip(drawn.firsts, drawn.seconds):
        voters = drawn.neighbours[first] if method == "smotenc" else ()
        for row in {first, second, *voters}:
            counts[row] += 1
    assert result.largest_influence == max(counts) > 48 / 12
    smaller = features[labels == 0]
    parents = smaller[drawn.firsts][:, 0], smaller[drawn.seconds][:, 0]
    np.testing.assert_allclose(result.features[:, 0], parents[0] + drawn.steps[:, 0] * (parents[1] - parents[0]))


def test_a_row_that_is_both_parents_or_its_own_neighbour_counts_once():
    assert influence_of_parents(np.array([0, 0, 1]), np.array([0, 2, 2]), 4).tolist() == [2, 1, 2, 0]
    neighbours = np.array([[0, 1], [2, 0], [1, 0]])
    assert influence_of_voters(np.array([0, 0, 1]), neighbours).tolist() == [3, 3, 1]


@given(st.integers(0, 2**40), st.sampled_from(sorted(METHODS)))
@settings(max_examples=15, deadline=None)
def test_nothing_of_a_held_out_row_reaches_the_training_rows(seed, method):
    frame = table(seed=seed % 97)
    training, held_out = split(frame, seed)
    replaced = frame.copy()
    replaced.loc[held_out.frame.index, ["amount", "term"]] = [1e9, -1e9]
    replaced.loc[held_out.frame.index, list(NAMED_GROUPS[1])] = [0.0, 0.0, 0.0, 1.0]
    other_training, _ = split(replaced, seed)
    (result, _), (other, _) = enlarged(training, method), enlarged(other_training, method)
    pandas.testing.assert_frame_equal(result, other, check_exact=True)
    assert not set(result["id"]) & set(held_out.frame["id"])


def test_real_rows_come_first_and_unchanged_and_both_classes_end_equal():
    training, _ = split(table())
    before = training.frame.copy()
    result, _ = enlarged(training)
    assert before["paid"].value_counts().to_dict() == {0: 21, 1: 70}
    assert result["paid"].value_counts().to_dict() == {0: 70, 1: 70}
    pandas.testing.assert_frame_equal(result[:91], before.reset_index(drop=True), check_exact=True)
    pandas.testing.assert_frame_equal(training.frame, before, check_exact=True)
    added = result[91:]
    assert added["id"].tolist() == [f"{SYNTHETIC_PREFIX}9999-{number}" for number in range(1, 50)]
    assert (added["paid"] == 0).all() and result["paid"].dtype == "int8"
    assert result.columns.tolist() == before.columns.tolist() and result.index.tolist() == list(range(140))


def test_draws_follow_the_seed_and_the_tag_and_ids_of_parties_never_meet():
    training, _ = split(table())
    first, again, *others = (
        enlarged(training, **options)[0] for options in ({}, {}, {"seed": 6}, {"tag": "a"}, {"tag": "b"})
    )
    pandas.testing.assert_frame_equal(first, again, check_exact=True)
    made = [frame[91:] for frame in (first, *others)]
    assert len({frame["amount"].to_numpy().tobytes() for frame in made}) == 4
    assert len(set().union(*(frame["id"] for frame in made))) == 3 * 49


def test_the_number_of_threads_does_not_change_which_of_equally_near_rows_are_neighbours():
    rng = np.random.default_rng(0)
    features = np.hstack([rng.integers(0, 3, (4000, 4)), np.eye(14)[rng.integers(0, 14, 4000)]])
    labels = np.array([0] * 1500 + [1] * 2500)
    made = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            made.append(over_sample_arrays(features, labels, OverSampling("smote"), groups=(), seed=1).features)
    assert made[0].tobytes() == made[1].tobytes()


def test_the_split_does_not_depend_on_the_over_sampling():
    frame = table()
    before = [side.frame["id"].tolist() for side in split(frame)]
    enlarged(split(frame)[0], "smote")
    assert [side.frame["id"].tolist() for side in split(frame)] == before


def test_equal_classes_get_nothing():
    training, _ = split(table(30, 30))
    result, largest_influence = enlarged(training)
    pandas.testing.assert_frame_equal(result, training.frame.reset_index(drop=True), check_exact=True)
    assert result["paid"].value_counts().to_dict() == {0: 21, 1: 21} and largest_influence == 0


def test_the_smaller_class_may_be_any_label():
    features, labels = rows(40, 10)
    made = over_sample_arrays(features, np.where(labels == 1, 7.5, -1.0), OverSampling(), groups=GROUPS, seed=1)
    assert made.labels.tolist() == [7.5] * 30


def test_held_out_rows_and_bare_tables_are_not_over_sampled():
    training, held_out = split(table())
    for rows_of_no_training, name in ((held_out, "HeldOutRows"), (training.frame, "DataFrame")):
        with refusal(
            TypeError,
            f"only TrainingRows from split_train_test are over-sampled, not {name}: "
            "synthetic rows made from test rows would carry them into the training.",
        ):
            enlarged(rows_of_no_training)


def test_rows_are_not_over_sampled_twice():
    frame = enlarged(split(table())[0])[0]
    again, _ = split(frame)
    marked = again.frame["id"].str.startswith(SYNTHETIC_PREFIX).sum()
    with refusal(InvalidArgument, f"{marked} ids begin with 'synthetic-': these rows are already over-sampled."):
        enlarged(again)


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"method": "adasyn"}, "over-sampling method must be one of smotenc, smotenc_parents, smote, got 'adasyn'."),
        ({"method": ["smote"]}, "over-sampling method must be one of smotenc, smotenc_parents, smote, got ['smote']."),
        ({"neighbours": 0}, "neighbours must be a whole number of at least 1, got 0."),
        ({"neighbours": True}, "neighbours must be a whole number of at least 1, got True."),
        ({"neighbours": 5.0}, "neighbours must be a whole number of at least 1, got 5.0."),
    ],
)
def test_options_check_themselves(options, sentence):
    with refusal(InvalidArgument, sentence):
        OverSampling(**options)


@pytest.mark.parametrize(
    "smaller, larger, neighbours, sentence",
    [
        (5, 50, 5, "only 5 rows have label 0, and 5 neighbours need at least 6; lower neighbours to 4."),
        (2, 50, 5, "only 2 rows have label 0, and 5 neighbours need at least 6; lower neighbours to 1."),
        (1, 50, 1, "only 1 row has label 0, and over-sampling needs at least 2."),
        (0, 50, 1, "over-sampling needs rows of two classes, got 50 with label 1."),
        (0, 0, 1, "over-sampling needs rows of two classes, got no rows."),
    ],
)
def test_too_few_rows_are_refused_with_numbers(smaller, larger, neighbours, sentence):
    features, labels = rows(smaller, larger)
    with refusal(InvalidArgument, sentence):
        over_sample_arrays(features, labels, OverSampling(neighbours=neighbours), groups=GROUPS, seed=1)


def test_as_many_neighbours_as_there_are_other_rows_are_enough():
    features, labels = rows(6, 50)
    assert len(over_sample_arrays(features, labels, OverSampling(neighbours=5), groups=GROUPS, seed=1).labels) == 44


def spoiled(row, column, value):
    features, _ = rows(20, 50)
    features[row, column] = value
    return features


@pytest.mark.parametrize(
    "features, groups, error, sentence",
    [
        (
            spoiled(3, 0, np.nan),
            GROUPS,
            InvalidArgument,
            "1 rows have a value that is missing or beyond 1e+150; over-sampling needs all values.",
        ),
        (
            spoiled(3, 0, -np.inf),
            GROUPS,
            InvalidArgument,
            "1 rows have a value that is missing or beyond 1e+150; over-sampling needs all values.",
        ),
        (
            spoiled(3, 0, 1e200),
            GROUPS,
            InvalidArgument,
            "1 rows have a value that is missing or beyond 1e+150; over-sampling needs all values.",
        ),
        (
            spoiled([3, 4], 4, 0.5),
            GROUPS,
            InvalidArgument,
            "one-hot group 2 has 2 rows that are not one 1 and otherwise 0 in its 4 columns.",
        ),
        (
            spoiled(3, [2, 3], 1.0),
            GROUPS,
            InvalidArgument,
            "one-hot group 1 has 1 rows that are not one 1 and otherwise 0 in its 2 columns.",
        ),
        (
            spoiled(3, [2, 3], 0.0),
            GROUPS,
            InvalidArgument,
            "one-hot group 1 has 1 rows that are not one 1 and otherwise 0 in its 2 columns.",
        ),
        (
            spoiled(3, [2, 3], [-1.0, 2.0]),
            GROUPS,
            InvalidArgument,
            "one-hot group 1 has 1 rows that are not one 1 and otherwise 0 in its 2 columns.",
        ),
        (
            rows(20, 50)[0],
            ((2, 3), (3, 4)),
            InvalidArgument,
            "one-hot groups must have columns, and no column may be in two of them.",
        ),
        (
            rows(20, 50)[0],
            ((2, 3), ()),
            InvalidArgument,
            "one-hot groups must have columns, and no column may be in two of them.",
        ),
        (rows(20, 50)[0], ((7, 8),), InvalidArgument, "one-hot groups name columns outside the 8 features."),
        (
            rows(20, 50)[0],
            (),
            InvalidArgument,
            "smotenc and smotenc_parents need number columns and one-hot groups, got 8 and 0; smote does not.",
        ),
        (
            rows(20, 50)[0][:, 2:4],
            ((0, 1),),
            InvalidArgument,
            "smotenc and smotenc_parents need number columns and one-hot groups, got 0 and 1; smote does not.",
        ),
        (
            rows(20, 49)[0],
            GROUPS,
            InvalidArgument,
            "shapes of features and labels must be (n, m) and (n,), got ((69, 8), (70,)).",
        ),
    ],
)
def test_features_that_do_not_fit_are_refused(features, groups, error, sentence):
    with refusal(error, sentence):
        over_sample_arrays(features, rows(20, 50)[1], OverSampling(), groups=groups, seed=1)


def test_labels_and_tables_that_do_not_fit_are_refused():
    features, labels = rows(20, 50)
    with refusal(InvalidArgument, "1 rows have no label; over-sampling needs all labels."):
        over_sample_arrays(features, np.array([np.nan, *labels[1:]]), OverSampling(), groups=GROUPS, seed=1)
    with refusal(
        InvalidArgument,
        "over-sampling needs rows of two classes, got 1 with label 0, 19 with label 1, 50 with label 2.",
    ):
        over_sample_arrays(features, np.array([0, *(labels[1:] + 1)]), OverSampling(), groups=GROUPS, seed=1)
    training, _ = split(table().assign(amount="much"))
    with refusal(InvalidArgument, "column 'amount' does not hold numbers; over-sampling needs numbers."):
        enlarged(training)
    with refusal(InvalidArgument, "a one-hot group names 'grade_A', which is not a feature column."):
        over_sample(split(table())[0], OverSampling(), groups=(("grade_A", "own_NO"),), seed=1, tag="")


def test_smote_before_the_split_makes_a_model_look_good_that_has_learned_nothing():
    """Features without any relation to the label: no model can do better than 0.5 on rows that it knows nothing of.

    The forbidden order is written with imbalanced-learn itself, because over_sample refuses it. Balanced accuracy of a
    nearest-neighbour model on the real held-out rows, measured by this test: 0.88 with SMOTE before the split, 0.47
    when the synthetic rows with a parent among the held-out rows are taken out again, 0.54 with SMOTE after the split.
    """
    names = [f"feature_{number}" for number in range(4)]
    frame = pandas.DataFrame(np.random.default_rng(0).normal(size=(1000, 4)), columns=names)
    frame = frame.assign(paid=np.array([0] * 100 + [1] * 900), id=[f"loan-{number}" for number in range(1000)])
    leaking, leaking_test = split(synthetic_first(frame, names))
    honest, honest_test = split(frame)
    honest_train = over_sample(honest, OverSampling("smote"), groups=(), seed=5, tag="")[0]

    leaked = has_parent_in(leaking_test.frame, leaking.frame, frame, names)
    assert leaked.sum() > 0.3 * (~is_real(leaking.frame)).sum()
    assert not has_parent_in(honest_test.frame, honest_train, frame, names).any()
    flattered = balanced_accuracy(leaking.frame, leaking_test.frame, names)
    mended = balanced_accuracy(leaking.frame[~leaked], leaking_test.frame, names)
    true = balanced_accuracy(honest_train, honest_test.frame, names)
    assert flattered > 0.8 and 0.4 < true < 0.6 and 0.4 < mended < 0.6


def synthetic_first(frame, names):
    """The forbidden order: all rows, those to be tested on included, make synthetic ones."""
    features, labels = SMOTE(random_state=0).fit_resample(frame[names].to_numpy(), frame["paid"].to_numpy())
    ids = [*frame["id"], *(f"{SYNTHETIC_PREFIX}{number}" for number in range(len(features) - len(frame)))]
    return pandas.DataFrame(features, columns=names).assign(paid=labels, id=ids)


def is_real(frame):
    return ~frame["id"].str.startswith(SYNTHETIC_PREFIX)


def balanced_accuracy(train, test, names):
    """Of a nearest-neighbour model on the real rows of `test`."""
    model = KNeighborsClassifier(1).fit(train[names].to_numpy(), train["paid"])
    real = test[is_real(test)]
    return balanced_accuracy_score(real["paid"], model.predict(real[names].to_numpy()))


def has_parent_in(test, train, frame, names):
    """For each row of `train` whether it is synthetic and lies between two real rows of which one is in `test`."""
    smaller = frame[frame["paid"] == 0]
    values, tested = smaller[names].to_numpy(), smaller["id"].isin(test["id"]).to_numpy()
    first, second = np.triu_indices(len(values), 1)
    start, way = values[first], values[second] - values[first]
    features, found = train[names].to_numpy(), np.zeros(len(train), dtype=bool)
    for place in np.flatnonzero(~is_real(train)):
        row = features[place]
        steps = (row[0] - start[:, 0]) / way[:, 0]
        near = np.flatnonzero(np.abs(start[:, 1] + steps * way[:, 1] - row[1]) < 1e-9)
        (pair,) = near[np.abs(start[near] + steps[near, None] * way[near] - row).max(axis=1) < 1e-9]
        found[place] = tested[first[pair]] or tested[second[pair]]
    return found
