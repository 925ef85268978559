"""Which tasks of FATE `make bench-label-firewall` plays, and who reads what in them.

A case is one statement: of a task at its settings, the `observer` reads `what` of the `owner`. Cases of one task on one table
share a single run. What the catalogue says of a component cites these by their key.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter, methodcaller
from typing import Any

from bench import label_firewall_reading as reading
from bench import label_firewall_training as training
from bench.label_firewall_parties import ARBITER, GUEST, HOST, OTHER_HOST, PartyView, Read, Task

STOCK_ROWS, SMALL_ROWS, FEW_ROWS, COIN_ROWS = 5_000, 1_000, 200, 40_000
EPSILON = 1.0
WITH_ARBITER, HOSTS = (GUEST, HOST, ARBITER), (GUEST, HOST, OTHER_HOST)
HOSTS_AND_ARBITER = (*HOSTS, ARBITER)
TWO, COINS, WHOLE, REAL = "two", "coins", "whole", "real"
EVERY, SOME, SUMS, NOTHING = "every", "some", "sums", "nothing"
OU = {"he_param": {"kind": "ou", "key_length": 1024}}
ONE_TREE = {"num_trees": 1}
# What some of FATE's own examples of both regressions begin with; the default is uniform in [0, 1).
FROM_ZEROS = {"epochs": 1, "init_param": {"method": "zeros", "fit_intercept": True}}
# Of several hosts FATE has no loss to stop by.
TWO_HOSTS = {"early_stop": "weight_diff", "tol": 1e-9}
FEW_EPOCHS, FOLDS = {"epochs": 2}, {"epochs": 1, "cv_param": {"n_splits": 2}}


FOUND, UP_TO_A_NUMBER = attrgetter("share_found"), attrgetter("share_up_to_a_number")


@dataclass(frozen=True)
class Data:
    """A table of rows, with ``columns`` at the guest and at each of ``hosts``; labels are TWO, COINS, WHOLE numbers or REAL."""

    rows: int = FEW_ROWS
    labels: str = TWO
    columns: int = 5
    hosts: int = 1
    labels_of_all: bool = False


@dataclass(frozen=True)
class Case:
    """A task, and the statement about it: the observer receives what ``receives`` says, from which it computes ``computes``.

    ``learns`` is `every` value where all rows were read, `some` where single records show, though not to the last one, `sums`
    where no number of a single row was found, and `nothing`; ``share`` is what is measured, of all rows.
    """

    figure: str
    task: Task
    read: Callable[[PartyView], Any]
    receives: str
    computes: str
    learns: str
    data: Data = field(default=Data(SMALL_ROWS))
    share: Callable[[Read], float] = attrgetter("share_of_true")
    what: str = "labels"
    owner: str = "guest"
    observer: tuple = HOST

    @property
    def method(self) -> str:
        """The function that reads."""
        return getattr(self.read, "func", self.read).__name__


linear = partial(methodcaller, "share_linear")


def labels(figure: str, task: Task, read: Callable, words: tuple[str, str], learns: str, **more: Any) -> Case:
    return Case(figure, task, read, *words, learns, **more)


BINNING, BINNING_OU = Task("hetero_feature_binning"), Task("hetero_feature_binning", OU)
LR, LINR = (Task(f"coordinated_{kind}", parties=WITH_ARBITER) for kind in ("lr", "linr"))
STEPS = "their changes, free of y; with their span taken out, y remains"
OF_LABELS = (
    Case(
        "labels_read_stock",
        BINNING,
        reading.compare_with_guesses,
        "the label of every row, encrypted without blinding, and the public key",
        "two ciphertexts, one for each label, which it encrypts itself",
        EVERY,
        Data(STOCK_ROWS),
    ),
    Case(
        "labels_read_binning_ou",
        BINNING_OU,
        reading.compare_with_guesses,
        "the label of every row, encrypted with fresh randomness",
        "no label: no ciphertext equals that of a guess",
        NOTHING,
    ),
    *(
        Case(
            f"labels_read_binning_{setting}",
            Task("hetero_feature_binning", {setting: True}),
            reading.compare_with_guesses,
            "no message",
            "no label",
            NOTHING,
        )
        for setting in ("skip_metrics", "local_only")
    ),
    Case(
        "labels_read_ours",
        Task("hetero_feature_binning", epsilon=EPSILON),
        reading.compare_with_guesses,
        "the flip of every label, encrypted without blinding, and the public key",
        "every flip, and no more of a label than its flip tells",
        EVERY,
        Data(COIN_ROWS, COINS),
    ),
    Case(
        "labels_read_binning_predict",
        Task("hetero_feature_binning", stage="predict"),
        reading.compare_with_guesses,
        "the label of every row of test_data, encrypted without blinding, and the public key",
        "two ciphertexts, one for each label, which it encrypts itself",
        EVERY,
        Data(),
    ),
    Case(
        "labels_read_coordinated_lr_from_zeros",
        Task("coordinated_lr", FROM_ZEROS, WITH_ARBITER),
        reading.signs_of_residuals,
        "-0.5 y of every row, y 1 or -1, unblinded; the arbiter alone has the private key",
        "its sign",
        EVERY,
    ),
    Case(
        "labels_read_coordinated_lr_by_sign",
        Task("coordinated_lr", {"epochs": 1}, WITH_ARBITER),
        reading.signs_of_residuals,
        "0.25 x w - 0.5 y of every row, unblinded",
        "its sign, which is that of -y unless |x w| of the guest is above 2",
        SOME,
    ),
    Case(
        "labels_read_coordinated_lr",
        LR,
        partial(reading.fit_residuals, step=1.0),
        "0.25 x w - 0.5 y of every row in 20 epochs, unblinded",
        STEPS,
        EVERY,
    ),
    Case(
        "labels_read_coordinated_linr",
        LINR,
        partial(reading.fit_residuals, step=1.0),
        "x w - y of every row in 20 epochs, unblinded; y has two values here",
        STEPS,
        EVERY,
    ),
    Case(
        "linr_share_read",
        LINR,
        partial(training.whole_labels, of_tensors=reading.of_tensors),
        "x w - y of every row in 20 epochs, unblinded; y is a whole number, w begins at random",
        "by least squares over all steps what the penalty adds to each, so x w, so y but for the intercept",
        EVERY,
        Data(labels=WHOLE, columns=2),
        share=UP_TO_A_NUMBER,
    ),
    Case(
        "linr_share_read_two_hosts_40_epochs",
        Task("coordinated_linr", {"epochs": 40, **TWO_HOSTS}, HOSTS_AND_ARBITER),
        partial(training.whole_labels, of_tensors=reading.of_tensors),
        "the whole residual of every row in 40 epochs, unblinded",
        "the same for the columns of guest and other host together",
        EVERY,
        Data(labels=WHOLE, columns=1, hosts=2),
        share=UP_TO_A_NUMBER,
    ),
    Case(
        "linr_share_read_two_hosts_5_epochs",
        Task("coordinated_linr", {"epochs": 5, **TWO_HOSTS}, HOSTS_AND_ARBITER),
        partial(training.whole_labels, of_tensors=reading.of_tensors),
        "the whole residual of every row in 5 epochs, unblinded",
        "too few steps for as many columns: the labels nearest to whole numbers",
        SOME,
        Data(labels=WHOLE, hosts=2),
        share=UP_TO_A_NUMBER,
    ),
    Case(
        "labels_read_sshe_lr_from_zeros",
        Task("sshe_lr", FROM_ZEROS),
        reading.signs_of_shares,
        "the guest's share of every row's residual 0.5 - y, unblinded",
        "with its own share the residual, and its sign",
        EVERY,
    ),
    Case(
        "labels_read_sshe_lr_by_sign",
        Task("sshe_lr", {"epochs": 1}),
        reading.signs_of_shares,
        "the guest's share of every row's residual, unblinded",
        "with its own share the residual, whose sign is the label unless the score is off by more than 2",
        SOME,
    ),
    Case(
        "labels_read_sshe_lr",
        Task("sshe_lr"),
        reading.fit_shares,
        "the same in 20 epochs",
        "their changes, free of the label; with their span taken out, the label of nearly every row remains",
        EVERY,
    ),
    Case(
        "labels_read_sshe_linr",
        Task("sshe_linr"),
        reading.fit_shares,
        "the guest's share of every row's residual in 20 epochs; y has two values here",
        "the same",
        EVERY,
    ),
    Case(
        "labels_read_secureboost_gh_pack_false",
        Task("hetero_secureboost", {"gh_pack": False, **ONE_TREE}),
        reading.read_gradients,
        "the gradient of every row, 0.5 - y in the first tree, unblinded",
        "its sign",
        EVERY,
    ),
    Case(
        "labels_read_secureboost_gh_pack_true",
        Task("hetero_secureboost", ONE_TREE),
        reading.read_gradients,
        "gradient and curvature of every row in one blinded ciphertext",
        "no label: no ciphertext is of the form 1 + m n",
        NOTHING,
    ),
    Case(
        "labels_in_majority_of_leaf_secureboost",
        Task("hetero_secureboost", ONE_TREE),
        reading.leaves,
        "the tree node of every row, leaves included, with any settings",
        "which rows have one leaf, and so one score of the guest's labels",
        SOME,
        share=attrgetter("share_in_majority"),
    ),
    *(
        Case(
            f"labels_by_leaves_of_{trees}_trees_secureboost",
            Task("hetero_secureboost", {} if trees == 3 else {"num_trees": trees}),
            training.leaves_of_trees,
            f"the leaf of every row in {trees} trees",
            "the first principal component of all leaves, up to one swap of the labels; it knows no label",
            SOME,
            Data(),
            share=attrgetter("share_up_to_swap"),
        )
        for trees in (3, 10)
    ),
)


def part(figure: str, task: Task, what: str, read: Callable, words: tuple[str, str], **more: Any) -> Case:
    """What one party reads of another beside labels, on a small table."""
    return Case(figure, task, read, *words, **{"data": Data(), "what": what, "learns": SOME, **more})


TO_GUEST: Mapping[str, Any] = {"owner": "host", "observer": GUEST}
TO_ARBITER: Mapping[str, Any] = {"observer": ARBITER}
IN_CLEAR = ("the host's part of every row's score in clear", "the same; its own part gives the score")
OPENS = (
    "every row's number, encrypted without blinding",
    "it divides by the public key: a linear combination of columns and label",
)
NO_ROWS = ("gradients, losses, weights and flags", "no message has a number for every row, or none that opens")
NAMES = ("the sample ids of rows", "which of its rows they are")


def clear_scores(component: str, stage: str, settings: Mapping[str, Any], parties: tuple) -> list[Case]:
    """The host's part of scores: after a training, in prediction, and of folds."""
    task = Task(component, settings, parties, stage=stage)
    read = partial(reading.numbers, message="h_pred") if stage != "cross_validation" else None
    read = read or partial(reading.numbers_of_folds, message="h_pred")
    share = linear("host") if stage != "cross_validation" else FOUND
    return [
        part(
            f"{component}_{stage}_scores_in_clear",
            task,
            "scores",
            read,
            IN_CLEAR,
            share=share,
            learns=EVERY,
            **TO_GUEST,
        ),
        part(f"{component}_{stage}_features_in_clear", task, "features", read, IN_CLEAR, share=share, **TO_GUEST),
    ]


def of_regression(component: str, parties: tuple) -> list[Case]:
    """What all four vertical regressions show in clear, and that sums stay sums."""
    folds = Task(component, FOLDS, parties, stage="cross_validation")
    batches = Task(component, {"epochs": 1, "batch_size": FEW_ROWS // 2}, parties)
    return [
        *clear_scores(component, "train", FEW_EPOCHS, parties),
        *clear_scores(component, "predict", {"epochs": 1}, parties),
        *clear_scores(component, "cross_validation", FOLDS, parties),
        part(
            f"{component}_fold_ids",
            folds,
            "ids",
            partial(reading.named_rows, message="fold_indexes"),
            NAMES,
            share=FOUND,
        ),
        part(
            f"{component}_batch_ids",
            batches,
            "ids",
            partial(reading.batches_out_of_order, message="batch_indexes"),
            ("the sample ids of each batch", "nothing: they are cut in the order of sample ids, which it has"),
            share=FOUND,
            learns=NOTHING,
        ),
    ]


def of_coordinated(kind: str) -> list[Case]:
    """What coordinated_lr and coordinated_linr send under the arbiter's key."""
    component, data = f"coordinated_{kind}", Data(labels=TWO if kind == "lr" else WHOLE)
    task = Task(component, FEW_EPOCHS, WITH_ARBITER)
    hosts = Task(component, {**FEW_EPOCHS, **TWO_HOSTS}, HOSTS_AND_ARBITER)
    opened, whole = partial(reading.numbers, message="half_d"), partial(reading.numbers, message="d")
    to_guest = partial(reading.numbers, message="Xw_h")
    sums = partial(reading.numbers_of_rows, rows=FEW_ROWS)
    everyone = linear("guest", "host", "host 10002")
    gradient = partial(reading.numbers, message="g")
    return [
        part(
            f"{component}_scores_of_residuals",
            task,
            "scores",
            opened,
            OPENS,
            share=linear("guest"),
            learns=EVERY,
            data=data,
        ),
        part(f"{component}_features_of_residuals", task, "features", opened, OPENS, share=linear("guest"), data=data),
        part(
            f"{component}_features_of_other_hosts",
            hosts,
            "features",
            whole,
            OPENS,
            share=everyone,
            owner="host",
            data=Data(hosts=2),
        ),
        part(
            f"{component}_scores_at_guest",
            task,
            "scores",
            to_guest,
            OPENS,
            share=linear("host"),
            learns=EVERY,
            data=data,
            **TO_GUEST,
        ),
        part(
            f"{component}_features_at_guest",
            task,
            "features",
            to_guest,
            OPENS,
            share=linear("host"),
            data=data,
            **TO_GUEST,
        ),
        *(
            part(
                f"{component}_{what}_at_arbiter",
                task,
                what,
                sums,
                NO_ROWS,
                share=FOUND,
                learns=SUMS,
                data=data,
                **TO_ARBITER,
            )
            for what in ("labels", "features")
        ),
        part(f"{component}_gradient_at_host", task, "labels", gradient, NO_ROWS, share=FOUND, learns=SUMS, data=data),
        part(
            f"{component}_gradient_at_guest",
            task,
            "features",
            gradient,
            NO_ROWS,
            share=FOUND,
            learns=SUMS,
            data=data,
            **TO_GUEST,
        ),
    ]


def of_sshe(kind: str) -> list[Case]:
    """What the shares of sshe_lr and sshe_linr open."""
    component, data = f"sshe_{kind}", Data(labels=TWO if kind == "lr" else WHOLE)
    task, read, both = Task(component, FEW_EPOCHS), reading.residuals_of_shares, linear("guest", "host")
    words = (
        "the other party's share of every row's residual, encrypted without blinding",
        "with its own share the residual",
    )
    weights = partial(reading.numbers_of_weights, message="default.mpc_obj_default.train.sshe_aggregator_layer")
    return [
        part(f"{component}_scores_of_residuals", task, "scores", read, words, share=both, learns=EVERY, data=data),
        part(f"{component}_features_of_residuals", task, "features", read, words, share=both, data=data),
        part(
            f"{component}_scores_at_guest", task, "scores", read, words, share=both, learns=EVERY, data=data, **TO_GUEST
        ),
        part(f"{component}_features_at_guest", task, "features", read, words, share=both, data=data, **TO_GUEST),
        part(f"{component}_weights_at_host", task, "labels", weights, NO_ROWS, share=FOUND, learns=SUMS, data=data),
        part(
            f"{component}_weights_at_guest",
            task,
            "features",
            weights,
            NO_ROWS,
            share=FOUND,
            learns=SUMS,
            data=data,
            **TO_GUEST,
        ),
    ]


def of_trees() -> list[Case]:
    """SecureBoost: nodes, sides, histograms and scores."""
    one, hosts, data = Task("hetero_secureboost", ONE_TREE), Data(hosts=2, columns=3), Data(FEW_ROWS)
    several = Task("hetero_secureboost", {}, HOSTS)
    nodes = partial(reading.sides, message="new_sample_pos", column="node_idx")
    own = partial(reading.sides, message="updated_data", column="h_node_idx")
    waits = partial(reading.numbers, message="pending_samples")
    reached = partial(reading.numbers, message="updated_pos")
    predicted, folds = Task("hetero_secureboost", ONE_TREE, stage="predict"), {**ONE_TREE, "cv_param": {"n_splits": 2}}
    predicted_of_hosts = Task("hetero_secureboost", ONE_TREE, HOSTS, stage="predict")
    crossed = Task("hetero_secureboost", folds, stage="cross_validation")
    told = ("the node of every row in every layer", "on which side of the other party's splits a row is")
    split = partial(methodcaller, "share_split")
    goss = Task("hetero_secureboost", {"num_trees": 2, "goss": True, "goss_start_iter": 0})
    unpacked = Task("hetero_secureboost", {"num_trees": 2, "gh_pack": False})
    lonely = (
        "encrypted sums of gradients over every split of every host column, with numbers of rows",
        "a split with one row alone on a side shows that row's own gradient",
    )
    waiting = ("the node at which every pending row waits", "which rows wait together")
    return [
        labels(
            "labels_read_secureboost_ou",
            Task("hetero_secureboost", {**OU, **ONE_TREE}),
            reading.read_gradients,
            ("gradient and curvature in one ciphertext of Okamoto-Uchiyama", "no label: nothing opens"),
            NOTHING,
            data=data,
        ),
        part(
            "secureboost_scores_unpacked",
            unpacked,
            "scores",
            reading.scores_of_gradients,
            ("gradient p - y and curvature p (1 - p) of every row, unblinded", "p, by both alike"),
            share=FOUND,
            learns=EVERY,
        ),
        part("secureboost_scores_by_leaf", several, "scores", nodes, told, share=FOUND, data=hosts),
        part("secureboost_features_by_node", several, "features", nodes, told, share=split("guest"), data=hosts),
        part(
            "secureboost_features_of_other_hosts",
            several,
            "features",
            nodes,
            told,
            share=split("host 10002"),
            owner="host",
            data=hosts,
        ),
        part("secureboost_sides_at_guest", several, "features", own, told, share=split("host"), data=hosts, **TO_GUEST),
        part(
            "secureboost_histograms",
            Task("hetero_secureboost", {**ONE_TREE, "objective": "regression:l2"}),
            "features",
            training.lonely_rows,
            lonely,
            share=FOUND,
            data=Data(labels=REAL),
            **TO_GUEST,
        ),
        part(
            "secureboost_histograms_unpacked",
            Task("hetero_secureboost", {**ONE_TREE, "objective": "regression:l2", "gh_pack": False}),
            "features",
            training.lonely_rows,
            lonely,
            share=FOUND,
            data=Data(labels=REAL),
            **TO_GUEST,
        ),
        part(
            "secureboost_shapes",
            one,
            "labels",
            partial(reading.numbers, message="sync_nodes"),
            NO_ROWS,
            share=FOUND,
            learns=SUMS,
        ),
        part(
            "secureboost_goss_labels",
            goss,
            "labels",
            reading.sampled_rows,
            ("gradients of the sampled rows alone", "which rows are sampled, those of large gradients first"),
            share=FOUND,
        ),
        part("secureboost_goss_ids", goss, "ids", reading.sampled_rows, NAMES, share=FOUND),
        part(
            "secureboost_scores_at_guest",
            one,
            "scores",
            reading.own_scores,
            told,
            share=FOUND,
            learns=EVERY,
            **TO_GUEST,
        ),
        part(
            "secureboost_predicted_scores",
            predicted,
            "scores",
            reading.own_scores,
            told,
            share=FOUND,
            learns=EVERY,
            **TO_GUEST,
        ),
        part("secureboost_predicted_sides", predicted, "features", reached, told, share=FOUND, **TO_GUEST),
        part("secureboost_predicted_nodes", predicted, "features", waits, waiting, share=FOUND),
        part(
            "secureboost_predicted_other_hosts",
            predicted_of_hosts,
            "features",
            waits,
            waiting,
            share=FOUND,
            owner="host",
            data=hosts,
        ),
        part("secureboost_predicted_leaves", predicted, "scores", waits, waiting, share=FOUND),
        part(
            "secureboost_fold_ids",
            crossed,
            "ids",
            partial(reading.named_rows, message="fold_indexes"),
            NAMES,
            share=FOUND,
        ),
        part(
            "secureboost_fold_scores",
            crossed,
            "scores",
            partial(reading.numbers_of_folds, message="updated_pos"),
            told,
            share=FOUND,
            learns=EVERY,
            **TO_GUEST,
        ),
        part(
            "secureboost_fold_sides",
            crossed,
            "features",
            partial(reading.numbers_of_folds, message="updated_pos"),
            told,
            share=FOUND,
            **TO_GUEST,
        ),
    ]


def of_tables() -> list[Case]:
    """psi, splits, samples, correlation, binning, selection and statistics."""
    psi, all_hosts = Task("psi", {}, HOSTS, stage="default"), Data(hosts=2)
    split = Task("data_split", {"train_size": 0.5, "test_size": 0.5, "stratified": True}, stage="default")
    sample = Task("sample", {"frac": {0: 0.5, 1: 1.0}}, stage="default")
    correlation, quiet = Task("feature_correlation", stage="default"), Task("statistics", stage="default")
    points = (
        "all ids of the other party as points under its secret exponent",
        "no id: none equals one of its own under its own exponent",
    )
    join = ("which of its rows are in the join", "that the other parties have them, too")
    masked = (
        "the other's standardised columns less a random matrix, and its own",
        "where it drew the matrix, the columns",
    )
    sums = partial(reading.numbers_of_rows, rows=FEW_ROWS)
    return [
        part("psi_ids_at_guest", psi, "ids", reading.matched_rows, join, share=FOUND, data=all_hosts, **TO_GUEST),
        part("psi_ids_at_host", psi, "ids", reading.matched_rows, join, share=FOUND, data=all_hosts),
        part(
            "psi_ids_of_other_hosts", psi, "ids", reading.matched_rows, join, share=FOUND, owner="host", data=all_hosts
        ),
        part(
            "psi_points_at_host",
            psi,
            "ids",
            partial(reading.guessed_ids, message="guest_first_sign"),
            points,
            share=FOUND,
            learns=SUMS,
            data=all_hosts,
        ),
        part(
            "psi_points_at_guest",
            psi,
            "ids",
            partial(reading.guessed_ids, message="host_first_sign"),
            points,
            share=FOUND,
            learns=SUMS,
            data=all_hosts,
            **TO_GUEST,
        ),
        part("data_split_ids", split, "ids", partial(reading.named_rows, message="train_data_sid"), NAMES, share=FOUND),
        labels(
            "labels_read_data_split_stratified",
            split,
            partial(reading.labels_of_places, messages=("train_data_sid", "validate_data_sid")),
            ("the place of every drawn row in the guest's new table", "where the order of rows starts anew"),
            EVERY,
            data=Data(),
            share=attrgetter("share_up_to_swap_of_found"),
        ),
        part("sample_ids", sample, "ids", partial(reading.named_rows, message="sample_index"), NAMES, share=FOUND),
        labels(
            "labels_read_sample_by_label",
            sample,
            partial(reading.labels_of_places, messages=("sample_index",)),
            ("the place of every drawn row in the guest's new table", "where the order of rows starts anew"),
            EVERY,
            data=Data(),
            share=attrgetter("share_up_to_swap_of_found"),
        ),
        part(
            "correlation_columns_at_guest",
            correlation,
            "features",
            reading.unmasked_columns,
            masked,
            share=methodcaller("share_of_columns", "host"),
            learns=EVERY,
            **TO_GUEST,
        ),
        part(
            "correlation_sums",
            correlation,
            "features",
            reading.correlations,
            NO_ROWS,
            share=FOUND,
            learns=SUMS,
            **TO_GUEST,
        ),
        part(
            "correlation_columns_at_host",
            correlation,
            "features",
            reading.unmasked_columns,
            masked,
            share=FOUND,
            learns=NOTHING,
        ),
        part(
            "binning_counts",
            BINNING,
            "features",
            sums,
            ("encrypted sums of labels over every bin", "no number of a single row"),
            share=FOUND,
            learns=SUMS,
            **TO_GUEST,
        ),
        part(
            "binning_counts_predict",
            Task("hetero_feature_binning", stage="predict"),
            "features",
            sums,
            ("encrypted sums of labels over every bin", "no number of a single row"),
            share=FOUND,
            learns=SUMS,
            **TO_GUEST,
        ),
        part(
            "statistics_no_message",
            quiet,
            "features",
            sums,
            ("no message", "nothing"),
            share=FOUND,
            learns=NOTHING,
            **TO_GUEST,
        ),
    ]


def of_homo(component: str, name: str, settings: Mapping[str, Any], masked: bool = True) -> list[Case]:
    """Models at the arbiter, masked or not, and their average at a party."""
    task, data = Task(component, settings, WITH_ARBITER), Data(labels_of_all=True)
    words = ("each party's weights plus random numbers from every other party", "no masked weight looks like a weight")
    clear, sums = (partial(read, rows=FEW_ROWS) for read in (reading.models_in_clear, reading.numbers_of_rows))
    return [
        case
        for what in ("labels", "features")
        for case in (
            *(
                [
                    part(
                        f"{name}_masked_{what}",
                        task,
                        what,
                        clear,
                        words,
                        share=FOUND,
                        learns=NOTHING,
                        data=data,
                        **TO_ARBITER,
                    )
                ]
                if masked
                else []
            ),
            part(f"{name}_sum_{what}", task, what, sums, NO_ROWS, share=FOUND, learns=SUMS, data=data, **TO_ARBITER),
            part(f"{name}_model_{what}", task, what, sums, NO_ROWS, share=FOUND, learns=SUMS, data=data),
        )
    ]


def _torch(item: str, **options: Any) -> dict[str, Any]:
    return {"item_name": item, "kwargs": options, "module_name": "torch.nn" if item != "Adam" else "torch.optim"}


def _layers(*layers: Mapping[str, Any]) -> dict[str, Any]:
    kwargs = {"seq_conf": dict(enumerate(layers))}
    return {"item_name": "load_seq", "kwargs": kwargs, "module_name": "fate.components.components.nn.torch.base"}


TRAINED = {
    "optimizer_conf": _torch("Adam", lr=0.01),
    "task_type": "binary",
    "training_args_conf": {"num_train_epochs": 2, "per_device_train_batch_size": 64},
}


def split_network(agg_type: str, stage: str) -> Task:
    """hetero_nn of linear models: an embedding of 4 columns at the host, a linear top model and BCE at the guest."""
    settings = {"agglayer_arg_conf": {"agg_type": agg_type}}
    if agg_type == "fed_pass":
        guest: Any = None
        host = {"agg_type": agg_type, "layer_type": "linear", "in_channels_or_features": 4, "hidden_features": 8}
        host |= {"out_channels_or_features": 4, "passport_mode": "single", "num_passport": 1}
    else:
        guest = host = {"agg_type": agg_type, "guest_in_features": 4, "host_in_features": 4, "out_features": 4}
    bottom = _torch("Linear", in_features=5, out_features=4)
    top = _layers(_torch("Linear", in_features=4, out_features=1), _torch("Sigmoid"))
    ends = {"loss_conf": _torch("BCELoss"), "top_model_conf": top}
    by_role = {
        "guest": {"runner_conf": {**TRAINED, **ends, "bottom_model_conf": bottom, "agglayer_arg_conf": guest}},
        "host": {"runner_conf": {**TRAINED, "bottom_model_conf": bottom, "agglayer_arg_conf": host}},
    }
    return Task("hetero_nn", {"runner_conf": settings}, stage=stage, by_role=by_role)


def of_split_networks() -> list[Case]:
    """hetero_nn with passports and with SSHE: gradients at the host, embeddings at the guest."""
    cases = []
    words = ("the gradient of the loss by its embedding of every row", "on which side of zero it lies, up to one swap")
    shown = ("the host's embedding of every row, or a layer's output of it", "the same")
    for agg, gradient, forward in (
        ("fed_pass", "agglayer_bw", "agglayer_fw"),
        ("hess", "default.mpc_tensor", "default.mpc_tensor"),
    ):
        task, predicted = split_network(agg, "train"), split_network(agg, "predict")
        sent, given = partial(reading.by_batch, message=gradient), partial(reading.by_batch, message=forward)
        if agg == "hess":
            sent, given = partial(reading.decrypted_gradients), partial(reading.layer_outputs)
        key = f"hetero_nn_{agg}"
        cases += [
            labels(
                f"labels_read_{key}",
                task,
                partial(reading.sides_of_gradients, gradients=sent),
                words,
                EVERY,
                data=Data(),
                share=attrgetter("share_up_to_swap"),
            ),
            part(f"{key}_scores_of_gradients", task, "scores", sent, words, share=FOUND),
            part(f"{key}_features_of_gradients", task, "features", sent, words, share=FOUND),
            part(f"{key}_features_at_guest", task, "features", given, shown, share=FOUND, **TO_GUEST),
            part(
                f"{key}_predicted_features", predicted, "features", reading.embeddings, shown, share=FOUND, **TO_GUEST
            ),
            part(
                f"{key}_scores_at_guest",
                task,
                "scores",
                reading.own_scores,
                shown,
                share=FOUND,
                learns=EVERY,
                **TO_GUEST,
            ),
            part(
                f"{key}_predicted_scores",
                predicted,
                "scores",
                reading.own_scores,
                shown,
                share=FOUND,
                learns=EVERY,
                **TO_GUEST,
            ),
        ]
    several = replace(split_network("fed_pass", "train"), parties=HOSTS)
    sent = partial(reading.by_batch, message="agglayer_bw")
    other = {"owner": "host", "data": Data(hosts=2)}
    return [*cases, part("hetero_nn_features_of_other_hosts", several, "features", sent, words, share=FOUND, **other)]


def homogeneous_network(aggregator: str) -> dict[str, Any]:
    """homo_nn of a linear model."""
    model = _layers(_torch("Linear", in_features=5, out_features=1), _torch("Sigmoid"))
    federated = {"aggregate_strategy": "epoch", "aggregate_freq": 1, "aggregator": aggregator}
    return {
        "runner_conf": {
            **TRAINED,
            "algo": "fedavg",
            "model_conf": model,
            "loss_conf": _torch("BCELoss"),
            "fed_args_conf": federated,
        }
    }


OF_ROWS = (
    *of_coordinated("lr"),
    *of_coordinated("linr"),
    *of_sshe("lr"),
    *of_sshe("linr"),
    *of_regression("coordinated_lr", WITH_ARBITER),
    *of_regression("coordinated_linr", WITH_ARBITER),
    *of_regression("sshe_lr", (GUEST, HOST)),
    *of_regression("sshe_linr", (GUEST, HOST)),
    *of_trees(),
    *of_tables(),
    *of_homo("homo_lr", "homo_lr", {"epochs": 1}),
    *of_homo("homo_nn", "homo_nn", homogeneous_network("secure_aggregate")),
    *of_homo("homo_nn", "homo_nn_plaintext", homogeneous_network("plaintext"), masked=False),
    *of_split_networks(),
)
CASES = (*OF_LABELS, *OF_ROWS)
