"""The private study's jobs on FATE-Flow: what each trains, what its epsilon protects, and where its scores are.

*By rows*, institutions hold different loans with the same columns; *by columns*, a bank holds the application and its terms, a
bureau the credit file of the same loans. Every job trains one kind of model at all epsilons and scores the held-out loans.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from examples.credit_risk.homo_lr import HomoLRSettings
from examples.pipelines import Federation, StudyTables, held_out_reader, training_reader
from fate_dp.data_prep.lending_club.columns import GROUPS, NUMERIC
from fate_dp.data_prep.lending_club.options import APPLICATION, CREDIT_FILE
from fate_dp.pipelines.jobs.ready import new_pipeline, reader_of

if TYPE_CHECKING:
    from fate_client.pipeline import FateFlowPipeline

DELTA = 1e-5
EPSILONS = (8.0, 4.0, 1.0)
ROWS, COLUMNS, TRANSFER = "rows", "columns", "transfer"
MAX_WEIGHT = 4.0
# Published: about 15 in 100 of Lending Club's loans are charged off. Class 0 is Charged Off.
PUBLIC_PRIOR = (0.15, 0.85)
CLASS_WEIGHTS = {"prior": list(PUBLIC_PRIOR), "maximum": MAX_WEIGHT}
NUMBER_BINS = 12
# Cut points that read no record: normal quantiles of numbers, which are in public units; indicators are cut in the middle.
NUMBER_CUTS = tuple(NormalDist().inv_cdf(each / NUMBER_BINS) for each in range(1, NUMBER_BINS))
INDICATOR_CUTS = (0.5,)
# Chosen on another data set (Adult).
TREES: dict[str, Any] = {"num_trees": 40, "max_depth": 3, "learning_rate": 0.15, "min_child_weight": 50.0}
SHUFFLER = "9996"
# FATE's SecureBoost cannot read classes beside a label whose name has an underscore.
BANK_LABEL = "y"
AGGREGATIONS = SECURE_SUM, LOCAL, SHUFFLE = "secure_sum", "local", "shuffle"


@dataclass(frozen=True)
class Rounds:
    """Settings of a private horizontal training; ``share`` of all institutions' records is expected in a round."""

    rounds: int
    share: float
    clip: float
    learning_rate: float
    momentum: float

    def batch_size(self, records: int) -> int:
        """Records that are expected in a round."""
        return math.ceil(self.share * records)


# Chosen on splits of other seeds than those that are reported; see bench/credit_study.py.
HORIZONTAL = {
    SECURE_SUM: Rounds(100, 0.05, 1.0, 0.1, 0.9),
    LOCAL: Rounds(100, 0.05, 1.0, 0.1, 0.9),
    SHUFFLE: Rounds(20, 0.1, 1.0, 0.2, 0.5),
}


@dataclass(frozen=True)
class Kind:
    """A kind of private model: in which part of the study it is, its title, and what its epsilon protects.

    Without a ``promise`` it is trained once, at no epsilon.
    """

    name: str
    part: str
    title: str
    protects: str
    promise: bool = True


SMOTENC = "homo_smotenc"
RECORD_ADDED = "a record, add or remove one, against {}"
FLIPS_PROTECT = "a label, replace-one, delta 0, against all but the bank"
LABEL_PROTECTED = "a label, replace-one, against all but the bank"
PART_PROTECTED = "each party's part of a record, replace-one, against the other party and whoever gets the model"
KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "homo_secure_sum",
            ROWS,
            "secure sum",
            RECORD_ADDED.format("arbiter, other institutions and whoever gets the model"),
        ),
        Kind(
            "homo_secure_sum_weighted",
            ROWS,
            "secure sum, class weights",
            RECORD_ADDED.format("the same; class weights are public"),
        ),
        Kind("homo_local", ROWS, "local noise", RECORD_ADDED.format("everybody else, who sees each noisy message")),
        Kind("homo_shuffle", ROWS, "shuffled", "a record, replace-one, against whoever sees the shuffled messages"),
        Kind(
            SMOTENC,
            ROWS,
            "SMOTENC, HomoLR",
            "nothing: after SMOTENC the epsilon of a record is infinity, so that dp_homo_nn refuses such rows",
            promise=False,
        ),
        Kind("label_flips_regression", COLUMNS, "flips, regression", FLIPS_PROTECT),
        Kind("label_flips_trees", COLUMNS, "flips, SecureBoost", FLIPS_PROTECT),
        Kind("label_noise_regression", COLUMNS, "label noise, regression", LABEL_PROTECTED),
        Kind(
            "label_noise_scorecard",
            COLUMNS,
            "label noise, scorecard",
            f"{LABEL_PROTECTED}; and the bureau's part of a record at the same epsilon",
        ),
        Kind(
            "record_noise_regression",
            COLUMNS,
            "record noise, regression",
            f"{PART_PROTECTED}; on flips of the same epsilon, without which dp_hetero_lr takes no labels that are not public",
        ),
        Kind("record_noise_scorecard", COLUMNS, "record noise, scorecard", PART_PROTECTED),
    )
}
# The transfer's job trains this kind, without the small institution.
TRANSFERRED, TRANSFER_EPSILON = "homo_secure_sum", 4.0


@dataclass(frozen=True)
class Place:
    """Uploaded tables of one split: whose they are, their namespace, and the public number of training loans.

    ``federation`` are the parties that train; those that only hold tables are not among them. ``label_source`` is the bank's,
    one for all splits of the same loans, whose labels are the same.
    """

    federation: Federation
    namespace: str
    records: int
    label_source: str

    @property
    def tables(self) -> StudyTables:
        return StudyTables(self.namespace)


@dataclass(frozen=True)
class ScoredTask:
    """Where a model's scores of held-out loans are: the task and its output.

    Without an ``output`` the study scores them itself, with the weights that bank and bureau have: a bureau shows no joint
    scores of columns with few values, as some of a credit file are.
    """

    kind: str
    epsilon: float | None
    task: str
    output: str | None = "test_output_data"


@dataclass(frozen=True)
class Built:
    """A pipeline, where its scores are, and by epsilon the task whose model can be taken over."""

    pipeline: FateFlowPipeline
    scored: tuple[ScoredTask, ...]
    trained: dict[float, str]


@dataclass(frozen=True)
class StudyJob:
    """One job of the study: its name, the part that it belongs to, the kind of model that it trains, and at which epsilons."""

    name: str
    part: str
    kind: str
    epsilons: tuple[float, ...]
    build: Callable[[StudyJob, Place], Built]
    trees: dict[str, Any]


def study_jobs(parts: Sequence[str], epsilons: Sequence[float], trees: int | None = None) -> Iterator[StudyJob]:
    """All jobs of a seed, in their order; ``trees`` is how many SecureBoost grows, None for those of `TREES`."""
    grown = TREES if trees is None else {**TREES, "num_trees": trees}
    for name, kind in KINDS.items():
        if kind.part in parts:
            at = tuple(epsilons) if kind.promise else ()
            yield StudyJob(name, kind.part, name, at, BUILDERS.get(name, rows_job), grown)
    if TRANSFER in parts:
        yield StudyJob(TRANSFER, TRANSFER, TRANSFERRED, (TRANSFER_EPSILON,), rows_job, grown)


def rows_job(job: StudyJob, place: Place) -> Built:
    """reader -> a dp_homo_nn for each epsilon -> its scores of the held-out loans at the guest."""
    from fate_dp.pipelines.clients import DPHomoNN

    aggregation = next((each for each in (LOCAL, SHUFFLE) if each in job.kind), SECURE_SUM)
    federation = replace(place.federation, shuffler=SHUFFLER) if aggregation == SHUFFLE else place.federation
    training, held_out = training_reader(federation, place.tables), held_out_reader(federation, place.tables)
    tasks, scored, trained = [training, held_out], [], {}
    for number, epsilon in enumerate(job.epsilons):
        model = DPHomoNN(
            f"dp_homo_nn_{number}",
            runtime_parties=federation.at_training(aggregation),
            train_data=training.outputs["output_data"],
            **horizontal_settings(aggregation, place.records, epsilon, weighted=job.kind.endswith("_weighted")),
        )
        tested = DPHomoNN(
            f"dp_homo_nn_test_{number}",
            runtime_parties={"guest": federation.guest},
            test_data=held_out.outputs["output_data"],
            input_model=model.outputs["output_model"],
        )
        tasks += [model, tested]
        trained[epsilon] = f"dp_homo_nn_{number}"
        scored.append(ScoredTask(job.kind, epsilon, f"dp_homo_nn_test_{number}"))
    return Built(new_pipeline(federation).add_tasks(tasks), tuple(scored), trained)


def horizontal_settings(aggregation: str, records: int, epsilon: float, weighted: bool) -> dict[str, Any]:
    """Parameters of dp_homo_nn."""
    settings = HORIZONTAL[aggregation]
    given = {
        "aggregation": aggregation,
        "records": records,
        "rounds": settings.rounds,
        "batch_size": settings.batch_size(records),
        "clip": settings.clip,
        "epsilon": epsilon,
        "delta": DELTA,
        "optimizer": {
            "method": "sgd",
            "optimizer_params": {"lr": settings.learning_rate, "momentum": settings.momentum},
        },
    }
    return (
        given
        | ({"class_weights": CLASS_WEIGHTS} if weighted else {})
        | ({"shuffler": SHUFFLER} if aggregation == SHUFFLE else {})
    )


def smotenc_job(job: StudyJob, place: Place) -> Built:
    """reader -> smote at each institution -> FATE's HomoLR with the source's settings -> its scores at the guest."""
    from fate_client.pipeline.components.fate import HomoLR

    from fate_dp.pipelines.clients import Smote

    parties, settings = place.federation, HomoLRSettings()
    training, held_out = training_reader(parties, place.tables), held_out_reader(parties, place.tables)
    datasets = {ids: f"{place.namespace}/{place.tables.training(role, ids)}" for role, ids in parties.data_parties()}
    smote = Smote(
        "smote_0",
        runtime_parties={"guest": parties.guest, "host": list(parties.hosts)},
        dataset=datasets[parties.guest],
        groups=[list(group) for group in GROUPS],
        train_data=training.outputs["output_data"],
    )
    for number, host in enumerate(parties.hosts):
        smote.hosts[number].task_parameters(dataset=datasets[host])
    model = HomoLR("homo_lr_0", train_data=smote.outputs["train_output_data"], **settings.for_fate())
    tested = HomoLR(
        "homo_lr_1",
        runtime_parties={"guest": parties.guest},
        test_data=held_out.outputs["output_data"],
        input_model=model.outputs["output_model"],
        batch_size=settings.batch_size,
        threshold=settings.threshold,
    )
    pipeline = new_pipeline(parties).add_tasks([training, held_out, smote, model, tested])
    return Built(pipeline, (ScoredTask(SMOTENC, None, "homo_lr_1"),), {})


class Joined:
    """Training and, where a task scores them, held-out loans of bank and bureau, joined; ``tasks`` collects the pipeline's."""

    def __init__(self, place: Place, held_out: bool = True) -> None:
        from fate_client.pipeline.components.fate import PSI

        self.place = place
        parties = place.federation
        self.parties = {"guest": parties.guest, "host": parties.hosts[0]}
        self.tasks: list[Any] = []
        self.rows: dict[str, Any] = {}
        for number, part in enumerate(("train", "test") if held_out else ("train",)):
            pairs = [(ids, f"{role}_{ids}_{part}") for role, ids in self.parties.items()]
            reader = reader_of(f"reader_{number}", place.namespace, *pairs)
            psi = PSI(f"psi_{number}", runtime_parties=self.parties, input_data=reader.outputs["output_data"])
            self.tasks += [reader, psi]
            self.rows[part] = psi.outputs["output_data"]

    def add(self, client: type, name: str, **given: Any) -> Any:
        """A task of both parties."""
        task = client(name, **{"runtime_parties": self.parties, **given})
        self.tasks.append(task)
        return task

    def pipeline(self) -> FateFlowPipeline:
        return new_pipeline(self.place.federation).add_tasks(self.tasks)


def flips_job(job: StudyJob, place: Place) -> Built:
    """reader -> psi -> for each epsilon label_flip -> dp_hetero_lr."""
    from fate_dp.pipelines.clients import DPHeteroLR

    joined, scored = Joined(place, held_out=False), []
    for number, epsilon in enumerate(job.epsilons):
        joined.add(DPHeteroLR, f"dp_hetero_lr_{number}", train_data=_flipped(joined, number, epsilon))
        scored.append(ScoredTask(job.kind, epsilon, f"dp_hetero_lr_{number}", None))
    return Built(joined.pipeline(), tuple(scored), {})


def trees_job(job: StudyJob, place: Place) -> Built:
    """reader -> psi -> for each epsilon label_flip -> FATE's SecureBoost -> its held-out scores -> score_correction.

    Flips are functions of the loans: they are those of the other job on flips, and cost nothing more.
    """
    from fate_client.pipeline.components.fate import HeteroSecureBoost

    from fate_dp.pipelines.clients import ScoreCorrection

    joined, scored = Joined(place), []
    for number, epsilon in enumerate(job.epsilons):
        flipped = _flipped(joined, number, epsilon)
        trees = joined.add(HeteroSecureBoost, f"secureboost_{number}", train_data=flipped, **job.trees)
        leaves = _test(joined, HeteroSecureBoost, f"secureboost_test_{number}", trees, joined.rows["test"])
        joined.add(
            ScoreCorrection,
            f"score_correction_{number}",
            runtime_parties={"guest": place.federation.guest},
            epsilon=epsilon,
            input_data=leaves.outputs["test_output_data"],
        )
        scored.append(ScoredTask(job.kind, epsilon, f"score_correction_{number}", "output_data"))
    return Built(joined.pipeline(), tuple(scored), {})


def _flipped(joined: Joined, number: int, epsilon: float) -> Any:
    from fate_dp.pipelines.clients import LabelFlip

    source, rows = joined.place.label_source, joined.rows["train"]
    flip = joined.add(LabelFlip, f"label_flip_{number}", input_data=rows, label_source=source, epsilon=epsilon)
    return flip.outputs["output_data"]


def _test(joined: Joined, client: type, name: str, model: Any, rows: object) -> Any:
    return joined.add(client, name, test_data=rows, input_model=model.outputs["output_model"])


def regression_job(job: StudyJob, place: Place) -> Built:
    """reader -> psi -> for each epsilon dp_hetero_lr with noise on labels, or on both parties' second moments of flips."""
    from fate_dp.pipelines.clients import DPHeteroLR

    joined, scored = Joined(place, held_out=False), []
    for number, epsilon in enumerate(job.epsilons):
        given: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
        if job.kind.startswith("label"):
            given |= {"privacy": "label", "label_source": place.label_source, "train_data": joined.rows["train"]}
        else:
            given |= {"privacy": "record", "train_data": _flipped(joined, number, epsilon)}
        model = joined.add(DPHeteroLR, f"dp_hetero_lr_{number}", **given)
        for party, radius in zip((model.guest, model.hosts[0]), noise_radii()):
            party.task_parameters(clip=radius)
        scored.append(ScoredTask(job.kind, epsilon, f"dp_hetero_lr_{number}", None))
    return Built(joined.pipeline(), tuple(scored), {})


def noise_radii() -> tuple[float, float]:
    """The norm of a typical row of each party: a number in public units counts 1, as does each group of indicators."""
    numbers = [sum(column in NUMERIC for column in held) for held in (APPLICATION, CREDIT_FILE)]
    return (numbers[0] + len(GROUPS)) ** 0.5, numbers[1] ** 0.5


def scorecard_job(job: StudyJob, place: Place) -> Built:
    """reader -> psi -> dp_binning at public cut points -> for each epsilon dp_scorecard with noise."""
    from fate_dp.pipelines.clients import DPBinning, DPScorecard

    joined, scored = Joined(place), []
    indicators = {name: {"cuts": list(INDICATOR_CUTS)} for group in GROUPS for name in group}
    cuts = {"columns": indicators, "other_columns": {"cuts": list(NUMBER_CUTS)}, "woe": False}
    binning = joined.add(DPBinning, "dp_binning_0", train_data=joined.rows["train"], **cuts)
    binned = _test(joined, DPBinning, "dp_binning_1", binning, joined.rows["test"])
    for number, epsilon in enumerate(job.epsilons):
        given: dict[str, Any] = {"privacy": "record", "epsilon": epsilon, "delta": DELTA}
        if job.kind.startswith("label"):
            given |= {"privacy": "label", "label_source": place.label_source}
        card = joined.add(
            DPScorecard,
            f"dp_scorecard_{number}",
            train_data=binning.outputs["train_output_data"],
            binning_model=binning.outputs["output_model"],
            **given,
        )
        _test(joined, DPScorecard, f"dp_scorecard_test_{number}", card, binned.outputs["test_output_data"])
        scored.append(ScoredTask(job.kind, epsilon, f"dp_scorecard_test_{number}"))
    return Built(joined.pipeline(), tuple(scored), {})


BUILDERS: dict[str, Callable[[StudyJob, Place], Built]] = {
    SMOTENC: smotenc_job,
    "label_flips_regression": flips_job,
    "label_flips_trees": trees_job,
    "label_noise_regression": regression_job,
    "label_noise_scorecard": scorecard_job,
    "record_noise_regression": regression_job,
    "record_noise_scorecard": scorecard_job,
}
"""What builds the job of a kind; of the others `rows_job`."""
