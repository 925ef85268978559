"""A job's disclosure in plain words, what would change it, and whether a party lets the job run.

`refusal` is what a party's ``job_check`` (policy.yaml) asks: ``refuse`` takes an unknown component for a leak, ``warn`` logs
the same sentence, ``off`` asks nothing (`enforce`).
"""

import copy
import logging
import re
from dataclasses import dataclass

from fate_dp.privacy.ledger.policy import OFF, WARN
from fate_dp.privacy.validation import InvalidArgument, check_epsilon

from ..common.channels import WAREHOUSES, channels_of, inputs
from ..common.job_files import JobPlan
from .declaration import EVERY, FEATURES, FLIPPED, IDS, LABELS, NOTHING, PRIVATE, SCORES, SOME, SUMS, TRUE
from .tracing import Disclosure, Sight, Unknown

logger = logging.getLogger(__name__)
FLIP = "label_flip"
HOW_TO_ALLOW = "To run it all the same, the guest's operator sets job_check to warn in policy.yaml."
CHANGE = re.compile(r"label_flip@([A-Za-z0-9_]+)(?::epsilon=([0-9.]+))?")
NO_LEAK, LEAK, UNKNOWN = 0, 1, 3
"""Exit statuses."""
NOUNS = {
    (EVERY, LABELS): "can read every {state} label of {owner}",
    (EVERY, FEATURES): "can read every feature of {owner}",
    (EVERY, IDS): "learns every record id of {owner}",
    (EVERY, SCORES): "learns the score of every row",
    (SOME, LABELS): "learns something about single {state} labels of {owner}",
    (SOME, FEATURES): "learns something about single records' features of {owner}",
    (SOME, IDS): "learns of single records whether {owner} has them",
    (SOME, SCORES): "learns scores of single rows",
    (SUMS, LABELS): "learns aggregates of the {state} labels of {owner}",
    (SUMS, FEATURES): "learns aggregates of the features of {owner}",
    (SUMS, IDS): "learns the number or another aggregate of the record ids of {owner}",
    (SUMS, SCORES): "learns aggregates of the scores",
}
NOTHING_LEARNT = "cannot read the {what} of {owner} that it receives"
NAMES = {IDS: "record ids"}
DEGREES = {EVERY: "every record", SOME: "single records", SUMS: "aggregates", NOTHING: "nothing"}
"""How much an observer learns, as people read it, by the word of its declaration."""
FORM_NAMES = {
    "clear": "in the clear",
    "masked": "masked",
    "encrypted_blinded": "encrypted",
    "encrypted_unblinded": "encrypted without blinding",
    "aggregated": "aggregated",
    PRIVATE: "differentially private",
}
"""In which form it receives it, by the word of its declaration."""


def status(disclosure: Disclosure) -> int:
    """0 where nothing leaks, 1 where something does or a component refuses, 3 where nobody can tell of a task and nothing leaks."""
    if disclosure.leaks or disclosure.joined:
        return LEAK
    return UNKNOWN if disclosure.unknown else NO_LEAK


def told(sight: Sight) -> str:
    """One sentence: who learns what of whom, where."""
    noun = NOUNS.get((sight.shown.learns, sight.shown.what), NOTHING_LEARNT)
    learnt = noun.format(owner=sight.owner, state=_state(sight), what=NAMES.get(sight.shown.what, sight.shown.what))
    private = " with differential privacy" if sight.shown.form == PRIVATE else ""
    return f"{sight.observer} {learnt}{private} in {sight.task}"


def _state(sight: Sight) -> str:
    if sight.labels.state != FLIPPED:
        return "true"
    epsilon = sight.labels.epsilon
    return "flipped" if epsilon is None else f"flipped (epsilon {epsilon:g})"


def advice(disclosure: Disclosure, sight: Sight) -> str:
    if sight.shown.what != LABELS:
        return sight.shown.instead
    place = disclosure.places_of_flips[sight.task]
    flip = f"put label_flip before it, directly behind {place}" if place else "put label_flip before it"
    others = [each for each in sight.shown.instead.split(", or ") if each and FLIP not in each]
    return ", or ".join([flip, *others])


def refusal(disclosure: Disclosure) -> str | None:
    """Why a careful party lets no such job run, one sentence about the first leak or unknown component, or None."""
    return _refused(disclosure, disclosure.leaks, disclosure.unknown)


def refusal_for_labels(disclosure: Disclosure) -> str | None:
    """As `refusal`, of true labels alone: leaks of them, and unknown components that get them."""
    leaks = tuple(sight for sight in disclosure.leaks if sight.shown.what == LABELS)
    return _refused(disclosure, leaks, tuple(each for each in disclosure.unknown if each.labels.state == TRUE))


def _refused(disclosure: Disclosure, leaks: tuple[Sight, ...], unknown: tuple[Unknown, ...]) -> str | None:
    if leaks:
        first, more = leaks[0], len(leaks) - 1
        rest = "" if not more else f" (and {more} more leak{'s' if more > 1 else ''})"
        instead = advice(disclosure, first)
        return f"{capitalized(told(first))}: {first.shown.computes}{rest}" + (f"; {instead}." if instead else ".")
    if disclosure.joined:
        return disclosure.joined[0]
    return f"{capitalized(unknown[0].why)}." if unknown else None


def enforce(job_check: str, sentence: str | None) -> None:
    """Raise InvalidArgument, log a warning, or nothing, as the party's policy says of a refusal."""
    if sentence is None or job_check == OFF:
        return
    if job_check == WARN:
        logger.warning("%s", sentence)
        return
    raise InvalidArgument(f"{sentence} {HOW_TO_ALLOW}")


def capitalized(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


@dataclass(frozen=True)
class Change:
    """label_flip put behind a task; ``epsilon`` (nats) None leaves it open."""

    behind: str
    epsilon: float | None = None

    @classmethod
    def parse(cls, text: str) -> "Change":
        found = CHANGE.fullmatch(text)
        if found is None:
            raise InvalidArgument.of("--what-if", text, "label_flip@TASK or label_flip@TASK:epsilon=NUMBER")
        try:
            return cls(found[1], None if found[2] is None else check_epsilon(float(found[2])))
        except ValueError:
            raise InvalidArgument.of("epsilon of --what-if", found[2], "a finite number greater than 0") from None

    def apply(self, plan: JobPlan) -> JobPlan:
        """The job in which all that read the task's data read flips of them; the given plan stays as it was."""
        tasks = plan.dag["tasks"]
        if self.behind not in tasks:
            raise InvalidArgument.of(
                "--what-if", f"label_flip@{self.behind}", f"behind one of the tasks {sorted(tasks)}"
            )
        dag = copy.deepcopy(plan.dag)
        name = next(f"{FLIP}_{n}" for n in range(len(tasks) + 1) if f"{FLIP}_{n}" not in tasks)
        read = [
            output
            for task in dag["tasks"].values()
            for channels in inputs(task).values()
            for kind, output in channels_of(channels)
            if kind not in WAREHOUSES and output["producer_task"] == self.behind
        ]
        keys = {output["output_artifact_key"] for output in read}
        if len(keys) != 1:
            raise InvalidArgument.of(
                "--what-if", f"label_flip@{self.behind}", "behind a task with one data output that others read"
            )
        for output in read:
            output.update(producer_task=name, output_artifact_key="output_data")
        source = {"producer_task": self.behind, "output_artifact_key": keys.pop()}
        dag["tasks"][name] = {
            "component_ref": FLIP,
            "stage": "default",
            "parameters": {} if self.epsilon is None else {"epsilon": self.epsilon},
            "inputs": {"data": {"input_data": {"task_output_artifact": [source]}}},
        }
        return JobPlan(dag)
