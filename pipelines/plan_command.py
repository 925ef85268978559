"""The ``fate-dp plan`` command: its flags, and from them to a printed plan."""
from __future__ import annotations

import argparse
import json
from dataclasses import fields
from pathlib import Path

from fate_dp.deploy.home_command import DEFAULT_HOME
from fate_dp.privacy.events import RELATIONS


def add_plan(commands) -> None:
    """Add ``plan labels``, ``plan training`` and ``plan homo-nn`` to the command line."""
    text = "answer 'what noise, what accuracy loss, how many runs' before anything is spent"
    kinds = commands.add_parser("plan", help=text, description=text[0].upper() + text[1:] + ".").add_subparsers(
        title="what to plan", metavar="WHAT", required=True
    )
    _add_labels(kinds)
    _add_training(kinds)
    _add_homo_nn(kinds)


def _add_labels(kinds) -> None:
    command = _kind(kinds, "labels", "flip labels: probabilities, information loss, releases that fit the cap", labels)
    command.add_argument("--records", type=int, required=True, help="number of labels")
    command.add_argument("--epsilon", type=float, required=True, help="nats per label")
    command.add_argument("--classes", type=int, help="label values that may occur (2)")
    command.add_argument("--cap", type=float, help="total epsilon that the source may spend (the policy's default)")
    command.add_argument("--source", metavar="NAMESPACE/NAME/COLUMN", help="take cap and spending of this declared label source")
    command.add_argument("--party", default="9999", help="with --source: whose it is (9999)")
    command.add_argument("--home", type=Path, default=Path(DEFAULT_HOME), help="with --source: folder of the parties (.fate-dp)")
    command.add_argument("--prior", type=float, help="public guess of the share of the class of interest (1/classes)")


def _add_training(kinds) -> None:
    command = _kind(kinds, "training", "train with noise in three trust models: local, shuffle, secure_sum", training)
    command.add_argument("--records", type=int, required=True, help="records of all clients together")
    command.add_argument("--clients", type=int, required=True, help="clients of equal size")
    command.add_argument("--rounds", type=int, required=True, help="noisy updates in one run")
    sampling = command.add_mutually_exclusive_group(required=True)
    sampling.add_argument("--sampling-probability", type=float, help="chance of each record to take part in a round")
    sampling.add_argument("--batch-size", type=int, help="the same as an expected number of records, over all clients")
    target = command.add_mutually_exclusive_group(required=True)
    target.add_argument("--epsilon", type=float, help="target in nats: which noise does it need?")
    target.add_argument("--noise-multiplier", type=float, help="sigma over the clip: which epsilon does it give?")
    command.add_argument("--delta", type=float, required=True, help="delta of the guarantee")
    command.add_argument("--clip", type=float, help="largest l2 norm of one contribution (1)")
    command.add_argument("--dimension", type=int, help="coordinates of an update, for the ratio of noise to signal")
    command.add_argument("--relation", choices=RELATIONS, help="of the target and the budget (add_or_remove)")
    command.add_argument("--tolerated", type=int, help="clients that may collude or drop out (1)")
    command.add_argument("--cap-epsilon", type=float, help="budget of the dataset: how many runs does it hold?")
    command.add_argument("--epsilon0", type=float, help="of a pure local randomiser, for comparison (1)")


def _add_homo_nn(kinds) -> None:
    command = _kind(kinds, "homo-nn", "a training of dp_homo_nn: what each trust model costs and how noisy it is", homo_nn)
    command.add_argument("--clients", type=int, required=True, help="parties with data, of equal size")
    command.add_argument("--records", type=int, required=True, help="records of all parties together")
    command.add_argument("--batch-size", type=float, help="expected records of a round, over all parties (all records)")
    command.add_argument("--rounds", type=int, help="noisy updates (50)")
    target = command.add_mutually_exclusive_group(required=True)
    target.add_argument("--epsilon", type=float, help="target in nats: which noise does it need?")
    target.add_argument("--noise-multiplier", type=float, help="sigma over the clip: which epsilon does it give?")
    command.add_argument("--epsilon0", type=float, help="of a message with trust shuffle (what --epsilon allows, or 1)")
    command.add_argument("--delta", type=float, help="delta of the guarantee (1e-5)")
    command.add_argument("--relation", choices=RELATIONS, help="of the target (add_or_remove; shuffle: replace_one)")
    command.add_argument("--model", default="logistic_regression", help="name of the model (logistic_regression)")
    command.add_argument("--model-params", metavar="JSON", help="its parameters, for example '{\"hidden\": [32]}'")
    command.add_argument("--features", type=int, help="features of a record, to count the model's parameters")
    command.add_argument("--classes", type=int, help="number of classes (2)")
    command.add_argument("--dimension", type=int, help="parameters of the model, instead of --model and --features")
    command.add_argument("--clip", type=float, help="largest l2 norm of one contribution (by features and noise)")
    command.add_argument("--unit", help="record or client (record)")
    command.add_argument("--tolerated", type=int, help="parties that may drop out or collude (1)")
    command.add_argument("--local-steps", type=int, help="steps of a party in a round (1)")
    command.add_argument("--local-learning-rate", type=float, help="of these steps")


def _kind(kinds, name: str, text: str, run) -> argparse.ArgumentParser:
    command = kinds.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    command.set_defaults(run=run)
    command.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return command


def labels(options) -> None:
    from .plan import LabelPlanRequest, plan_labels
    from .plan_tables import plan_json, print_label_plan

    asked = _asked(options, LabelPlanRequest)
    if options.source is not None:
        asked |= _of_source(options)
    plan = plan_labels(LabelPlanRequest(**asked))
    if options.json:
        print(json.dumps(plan_json(plan), indent=2, allow_nan=False))
        return
    print_label_plan(plan, _console())


def training(options) -> None:
    from .plan import TrainingPlanRequest, check_whole, plan_training
    from .plan_tables import plan_json, print_training_plan

    asked = _asked(options, TrainingPlanRequest)
    if options.batch_size is not None:
        check_whole("records", options.records, 1)
        check_whole("batch_size", options.batch_size, 1, largest=options.records)
        asked["sampling_probability"] = options.batch_size / options.records
    request, console = TrainingPlanRequest(**asked), _console()
    if options.json:
        print(json.dumps(plan_json(plan_training(request)), indent=2, allow_nan=False))
        return
    with console.status("") as status:
        plan = plan_training(request, progress=status.update)
    print_training_plan(plan, console)


def homo_nn(options) -> None:
    from .plan_homo_nn import run

    run(options)


def _asked(options, request_kind) -> dict:
    """What was given on the command line, so that the request's own defaults stand in one place."""
    given = {item.name: getattr(options, item.name, None) for item in fields(request_kind)}
    return {name: value for name, value in given.items() if value is not None}


def _of_source(options) -> dict:
    """What the party's policy and ledger say of a source; a --cap that was given asks what another cap would hold."""
    from .cli import parties_folder
    from .party_ledgers import label_budget

    cap, spent = label_budget(parties_folder(options.home), options.party, options.source)
    return {"cap": cap if options.cap is None else options.cap, "spent": spent}


def _console():
    from .cli import wide_console

    return wide_console()
