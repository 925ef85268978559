"""Parameters that FATE's components have and ours have not: what to do instead, in one sentence."""
from difflib import get_close_matches
from typing import Iterable, Mapping

_LEAVE_IT_OUT = "leave it out"
_RATE = "the learning rate is optimizer={'optimizer_params': {'lr': ...}}"
_PRECISION = f"the precision of numbers under encryption is fixed; {_LEAVE_IT_OUT}"
_RUNNER = "model, loss, optimizer and rounds are parameters by themselves; give model={'name': ...}"
_ROUNDS = f"noise is made for a number of rounds that is fixed beforehand; {_LEAVE_IT_OUT}"

OF_FATE: Mapping[str, Mapping[str, str]] = {
    "DPHeteroLR": {
        "floating_point_precision": _PRECISION,
        "output_cv_data": f"cross-validation always gives the scores of its folds; {_LEAVE_IT_OUT}",
        "learning_rate": _RATE,
        "reveal_every_epoch": f"each party's own weights are opened at the end; {_LEAVE_IT_OUT}",
        "reveal_loss_freq": f"the guest sees the mean loss of every epoch; {_LEAVE_IT_OUT}",
        "epsilon": "the epsilon of labels is a parameter of LabelFlip, that of features is noise_epsilon",
    },
    "ShareLR": {
        "floating_point_precision": _PRECISION,
        "output_cv_data": f"there is no cross-validation on shares; {_LEAVE_IT_OUT}",
        "cv_data": f"there is no cross-validation on shares; {_LEAVE_IT_OUT}",
        "cv_param": f"there is no cross-validation on shares; {_LEAVE_IT_OUT}",
        "batch_size": f"all joined rows are one batch; {_LEAVE_IT_OUT}",
        "validate_data": "rows to predict come as test_data of a task with input_model",
        "warm_start_model": f"training on shares starts from zero; {_LEAVE_IT_OUT}",
        "learning_rate": _RATE,
        "solver": f"it is cross_product always; {_LEAVE_IT_OUT}",
        "reveal_every_epoch": "reveal says whom the weights are opened to at the end",
        "reveal_loss_freq": f"the guest sees the mean loss of every epoch; {_LEAVE_IT_OUT}",
        "epsilon": "the epsilon of labels is a parameter of LabelFlip, that of the number of matches hide_size of Align",
    },
    "DPHomoNN": {
        "runner_module": _RUNNER,
        "runner_class": _RUNNER,
        "runner_conf": _RUNNER,
        "source": "a module of your own is model={'name': 'module:NAME'}, which each party's operator allows in its policy",
        "epochs": "rounds is the number of noisy updates; an epoch is records / batch_size of them",
        "tol": _ROUNDS,
        "early_stop": _ROUNDS,
        "learning_rate": _RATE,
        "ovr": f"a model of several classes has one output for each, by classes; {_LEAVE_IT_OUT}",
        "label_num": "it is called classes here",
        "validate_data": "rows to predict come as test_data of a task with input_model",
        "warm_start_model": f"training starts from public weights, by init_param; {_LEAVE_IT_OUT}",
    },
}  # fmt: skip


def refuse_unknown(component: str, unknown: Iterable[str], known: Iterable[str]) -> None:
    """Raise one sentence for the first parameter that a component has not: what FATE calls so, or a name like it.

    Args:
        component: name of the client class.
        unknown: names of the parameters that it was given and has not.
        known: names of those that it has.
    """
    for name in unknown:
        advice = OF_FATE.get(component, {}).get(name)
        if advice is None:
            alike = get_close_matches(name, list(known), 1)
            advice = f"did you mean {alike[0]}?" if alike else f"it has {', '.join(known)}."
            raise ValueError(f"{component} has no parameter {name}; {advice}")
        raise ValueError(f"{component} has no parameter {name}: {advice}.")
