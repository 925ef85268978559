"""Shared descent: the weights and losses of plain gradient descent and of FATE's optimiser, and nothing else to see."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest
from shared_training import (
    Parties,
    descents,
    joint_losses,
    joint_weights,
    others,
    prepared_by_dealer,
    prepared_by_parties,
    run_step,
    split_quadratic,
    standardised,
)

from fate_dp.components.protocols.optimizers import PartyOptimizer
from fate_dp.crypto.descent_steps import QuadraticShare, StepMasks, UpdateRule, draw_masks
from fate_dp.crypto.paillier import keypair_of_any_length
from fate_dp.crypto.shared_descent import LOSS_DEVIATION, UNSHOWN_DEVIATION, SharedDescent, loss_part, opened_weights

THREE = Parties((2, 1, 3))
TWO = Parties((2, 3))
STEPS = 20


def plain_descent(hessian, linear, weights, penalties, rates, momentum):
    """Gradient descent in float64: the last weights, and the loss before every step."""
    losses, velocity = [], 0.0
    for rate in rates:
        losses.append(weights @ (hessian @ weights + penalties * weights) / 2 - linear @ weights)
        velocity = momentum * velocity + hessian @ weights - linear + penalties * weights
        weights = weights - rate * velocity
    return weights, losses


@pytest.mark.parametrize("parties", [TWO, THREE])
def test_encrypted_training_gives_the_weights_and_losses_of_plain_descent(parties):
    hessian, linear = standardised(parties, seed=1)
    initial = np.random.default_rng(2).uniform(-1, 1, parties.total)
    penalties = np.full(parties.total, 0.05)
    penalties[parties.counts[0] - 1] = 0.0
    rule = UpdateRule(tuple(0.4 * 0.98**epoch for epoch in range(STEPS)), momentum=0.3)
    layout = parties.layout(768, STEPS, penalty=0.05)
    shares, keys = split_quadratic(parties, hessian, linear), [keypair_of_any_length(768) for _ in parties.counts]
    joint, losses = descents(parties, initial, layout, rule, penalties), []
    for epoch in range(STEPS):
        if epoch % layout.steps == 0:
            prepared = prepared_by_parties(shares, layout.at_most(STEPS - epoch), keys)
        run_step(joint, shares, prepared, epoch)
        losses += joint_losses(joint)
    weights, plain_losses = plain_descent(hessian, linear, initial, penalties, rule.learning_rates, 0.3)
    assert np.abs(joint_weights(joint) - weights).max() < 1e-9
    assert len(losses) == STEPS and np.abs(np.subtract(losses, plain_losses)).max() < 1e-8
    for descent, columns in zip(joint, parties.columns):
        revealed = descent.own_weights([other.share_of(columns) for other in joint if other is not descent])
        assert (revealed * 2**22 == np.rint(weights[columns] * 2**22)).mean() > 0.99
        assert np.abs(revealed - weights[columns]).max() <= 2.0**-23 + 1e-9


def trained_by_dealer(parties, batches, initial, rule, penalties, epochs, states=None):
    """Several batches an epoch; the joint descent after the last one."""
    layout = parties.layout(2048, epochs, penalty=float(max(penalties)))
    shares = [split_quadratic(parties, *batch) for batch in batches]
    prepared = [prepared_by_dealer(batch, layout) for batch in shares]
    joint = descents(parties, initial, layout, rule, penalties, states)
    for epoch in range(epochs):
        for batch_shares, batch_prepared in zip(shares, prepared):
            run_step(joint, batch_shares, batch_prepared, epoch)
        joint_losses(joint)
    return joint


def trained_by_fate(parties, batches, optimizers, epochs):
    """FATE's optimiser at every party, gradients in clear."""
    for _ in range(epochs):
        for hessian, linear in batches:
            weights = np.concatenate([one.weights.numpy().ravel() for one in optimizers])
            gradient = hessian @ weights - linear
            for one, columns in zip(optimizers, parties.columns):
                one.step(one.regularise(gradient[columns]))
        for one in optimizers:
            one.next_epoch()
    return np.concatenate([one.weights.numpy().ravel() for one in optimizers])


CONSTANT = {"method": "constant", "scheduler_params": {"factor": 1.0, "total_iters": 0}}
LATER = {"method": "constant", "scheduler_params": {"factor": 0.5, "total_iters": 3}}
STEPWISE = {"method": "step", "scheduler_params": {"step_size": 2, "gamma": 0.7}}
LINEAR = {"method": "linear", "scheduler_params": {"start_factor": 0.2, "total_iters": 4}}
RULES = [
    ({"lr": 0.3}, None, CONSTANT),
    ({"lr": 0.2, "momentum": 0.5}, "l2", CONSTANT),
    ({"lr": 0.2, "momentum": 0.5, "dampening": 0.25}, "l2", LATER),
    ({"lr": 0.2, "momentum": 0.6, "nesterov": True}, "l2", STEPWISE),
    ({"lr": 0.2, "momentum": 0.4, "weight_decay": 0.3}, "l2", LINEAR),
    ({"lr": 0.3, "dampening": 0.5, "weight_decay": 0.2}, None, CONSTANT),
]


def fate_optimizers(parties, initial, params, penalty, scheduler):
    optimizer = {"method": "sgd", "penalty": penalty, "alpha": 0.1, "optimizer_params": params}
    return [
        PartyOptimizer(initial[columns], optimizer, scheduler, fit_intercept=at == 0)
        for at, columns in enumerate(parties.columns)
    ]


@pytest.mark.parametrize("params, penalty, scheduler", RULES)
def test_weights_are_those_of_fates_optimiser(params, penalty, scheduler):
    parties, epochs = THREE, 5
    batches = [standardised(parties, seed) for seed in (4, 5)]
    initial = np.random.default_rng(6).uniform(-1, 1, parties.total)
    penalties = [0.1 if penalty else 0.0] * parties.total
    penalties[parties.counts[0] - 1] = 0.0
    build = (parties, initial, params, penalty, scheduler)
    expected = trained_by_fate(parties, batches, fate_optimizers(*build), epochs)
    rule = UpdateRule.from_sgd(params, fate_optimizers(*build)[0].learning_rates(epochs))
    joint = trained_by_dealer(parties, batches, initial, rule, penalties, epochs)
    assert np.abs(joint_weights(joint) - expected).max() < 1e-9


def test_a_warm_start_goes_on_as_if_training_had_not_ended():
    """Velocity and the anchor of weight decay pass through JSON; weights restart from the revealed ones."""
    params = {"lr": 0.2, "momentum": 0.7, "weight_decay": 0.2}
    batches = [standardised(TWO, seed=4)]
    initial, penalties = np.random.default_rng(6).uniform(-1, 1, TWO.total), [0.0] * TWO.total
    expected = trained_by_fate(TWO, batches, fate_optimizers(TWO, initial, params, None, CONSTANT), 8)
    rule = UpdateRule.from_sgd(params, [0.2] * 4)
    joint = trained_by_dealer(TWO, batches, initial, rule, penalties, 4)
    states = [json.loads(json.dumps(descent.state())) for descent in joint]
    revealed = np.concatenate(
        [
            descent.own_weights([other.share_of(columns) for other in others(joint, at)])
            for at, (descent, columns) in enumerate(zip(joint, TWO.columns))
        ]
    )
    joint = trained_by_dealer(TWO, batches, revealed, rule, penalties, 4, states)
    assert np.abs(joint_weights(joint) - expected).max() < 2.0**-22
    forgot = trained_by_dealer(TWO, batches, revealed, rule, penalties, 4)
    assert np.abs(joint_weights(forgot) - expected).max() > 1e-3


def test_a_repeated_training_reveals_the_same_weights():
    batch, rule = standardised(TWO, seed=7), UpdateRule((0.3,) * 10, momentum=0.3)
    revealed, shares = [], []
    for _ in range(2):
        joint = trained_by_dealer(TWO, [batch], np.full(TWO.total, 0.1), rule, [0.01] * TWO.total, 10)
        columns = TWO.columns[1]
        shares.append(joint[0].share_of(columns))
        revealed.append(joint[1].own_weights([shares[-1]]))
    assert (revealed[0] == revealed[1]).all() and shares[0] != shares[1]


def at_weights(parties, layout, weights, seed=1, spread=120):
    """Descents whose shares of these weights are random ones of ``spread`` bits."""
    joint = descents(parties, np.zeros(parties.total), layout, UpdateRule((0.0,)), [0.0] * parties.total)
    rest = np.array([round(weight * 2**40) for weight in weights.tolist()], dtype=object)
    generator = random.Random(seed)
    for descent in joint[1:]:
        share = np.array([generator.getrandbits(spread) for _ in rest], dtype=object)
        descent._weights = share
        rest = rest - share
    joint[0]._weights = rest
    return joint


def largest_quadratic(parties):
    """All the curvature that the public numbers allow: columns equal but for their sign, mean square 2."""
    signs = np.where(np.arange(parties.total) % 2, 1.0, -1.0)
    return np.outer(signs, signs) * 2 / 4, signs * np.sqrt(2) / 2, signs / np.sqrt(parties.total)


@pytest.mark.parametrize("parties", [TWO, THREE, Parties((1, 1, 1, 1, 1))])
@pytest.mark.parametrize("direction", [1, -1])
def test_gradients_and_losses_are_right_up_to_the_bound_on_weights(parties, direction):
    hessian, linear, steepest = largest_quadratic(parties)
    layout, shares = parties.layout(2048, 3), split_quadratic(parties, hessian, linear)
    weights = direction * steepest * 2.0**28 * (1 - 2.0**-10)
    joint, prepared = at_weights(parties, layout, weights), prepared_by_dealer(shares, layout)
    run_step(joint, shares, prepared, 0)
    expected = weights @ hessian @ weights / 2 - linear @ weights
    assert joint_losses(joint) == pytest.approx([expected], rel=1e-9)
    assert joint_weights(joint) == pytest.approx(weights, rel=1e-9)


def test_beyond_the_bound_losses_wrap():
    """The bound is what keeps them right: weights 16 times larger do not fit any more."""
    hessian, linear, steepest = largest_quadratic(TWO)
    layout, shares = TWO.layout(2048, 1), split_quadratic(TWO, hessian, linear)
    joint = at_weights(TWO, layout, steepest * 2.0**32)
    run_step(joint, shares, prepared_by_dealer(shares, layout), 0)
    assert joint_losses(joint)[0] < 2.0**60 < steepest @ hessian @ steepest * 2.0**63


@settings(max_examples=30)
@given(st.integers(3, 9), st.lists(st.integers(-(2**110), 2**110), min_size=1, max_size=4), st.randoms())
def test_shares_of_any_number_of_parties_become_integers(count, gradients, generator):
    """What the first party takes off makes the integer shares add up to the gradient, not just modulo the modulus."""
    parties = Parties((len(gradients),) + (1,) * (count - 1))
    layout, rule = parties.layout(2048, 1), UpdateRule((1.0,))
    zeros = QuadraticShare(np.zeros((parties.total,) * 2, dtype=object), np.zeros(parties.total, dtype=object))
    modulus = layout.products.system.moduli[0]
    wanted = gradients + [0] * (count - 1)
    products = [[generator.randrange(modulus) for _ in wanted] for _ in range(count - 1)]
    products.append([(value - sum(parts)) % modulus for value, parts in zip(wanted, zip(*products))])
    joint = descents(parties, np.zeros(parties.total), layout, rule, [0.0] * parties.total)
    heads, steps = [], [one.take() for one in prepared_by_dealer([zeros] * count, layout)]
    steps = [replace(step, product=np.array(own, dtype=object)) for step, own in zip(steps, products)]
    hidden = [descent.hidden_weights(step) for descent, step in zip(joint, steps)]
    for at, (descent, step) in enumerate(zip(joint, steps)):
        heads.append(descent.receive(zeros, step, others(hidden, at)))
    for at, descent in enumerate(joint):
        descent.move(0, [] if at else heads[1:])
    moved = [sum(parts) for parts in zip(*(descent.share_of(slice(None)) for descent in joint))]
    assert all(abs(-value * 2**44 - gradient) <= count * 2**43 for value, gradient in zip(moved, wanted))


WIDE = Parties((100, 100))


def seen_by_host(weight, narrower=0):
    """Leading three bits, modulo the step's moduli, of all that a host receives in three steps at equal weights."""
    layout = WIDE.layout(2048, 3)
    hessian, linear = np.zeros((WIDE.total,) * 2), np.zeros(WIDE.total)
    shares = split_quadratic(WIDE, hessian, linear)
    prepared = prepared_by_dealer(shares, layout, lambda: narrow(draw_masks(layout), narrower))
    joint = at_weights(WIDE, layout, np.full(WIDE.total, weight), spread=0)
    weights = []
    for _ in range(3):
        modulus = layout.products.system.moduli[len(weights)]
        weights.append([value * 8 // modulus for value in run_step(joint, shares, prepared, 0)[0]])
    losses = [
        [value * 8 // modulus for value in hidden]
        for hidden, modulus in zip(joint[0].take_losses().hidden(), layout.losses.system.moduli)
    ]
    return np.bincount(np.ravel(weights), minlength=8), np.bincount(np.ravel(losses), minlength=8)


def narrow(masks, bits):
    return StepMasks(masks.weights >> bits, masks.left >> bits, masks.right >> bits)


@pytest.mark.parametrize("weight", [0.0, -(2.0**20), 2.0**24])
def test_what_is_sent_during_training_is_uniform_whatever_the_weights(weight):
    for seen in seen_by_host(weight):
        assert seen.sum() in (600, 1200) and chisquare(seen).pvalue > 1e-9


def test_masks_40_bits_narrower_are_seen_and_much_narrower_ones_tell_the_sign():
    assert all(chisquare(seen).pvalue < 1e-9 for seen in seen_by_host(2.0**24, narrower=40))
    for positive, negative in zip(seen_by_host(2.0**24, narrower=100), seen_by_host(-(2.0**24), narrower=100)):
        assert positive[0] >= 600 and negative[0] == 0


def test_loss_shares_of_three_parties_are_uniform_one_by_one():
    layout, seen = THREE.layout(2048, 12), []
    shares = split_quadratic(THREE, *standardised(THREE, seed=1))
    for _ in range(20):
        joint, prepared = at_weights(THREE, layout, np.ones(THREE.total)), prepared_by_dealer(shares, layout)
        for _ in range(layout.steps):
            run_step(joint, shares, prepared, 0)
            losses = [descent.take_losses() for descent in joint]
            hidden = [of_party.hidden() for of_party in losses]
            seen.append(losses[1].share(others(hidden, 1), [1]) * 4 // prepared_modulus(layout, len(seen)))
    assert chisquare(np.bincount(seen, minlength=4)).pvalue > 1e-9


def prepared_modulus(layout, at):
    return layout.losses.system.moduli[at % layout.steps]


def after_two_batches(part=0, rows=(30, 70)):
    """The losses that are opened of two batches of one epoch, and what the mean should be."""
    layout, hessians = TWO.layout(2048, 12), [standardised(TWO, seed=seed) for seed in (1, 2)]
    layout = replace(layout, rows_added=sum(rows))
    joint, expected, at = at_weights(TWO, layout, np.ones(TWO.total)), 0.0, np.ones(TWO.total)
    for count, (hessian, linear) in zip(rows, hessians):
        shares = split_quadratic(TWO, hessian, linear)
        expected += count / sum(rows) * (at @ hessian @ at / 2 - linear @ at)
        before = joint_weights(joint)
        np.testing.assert_allclose(before, at, atol=1e-9)
        run_step(joint, shares, prepared_by_dealer(shares, layout), 0)
        at = joint_weights(joint)
    of_guest, of_host = (descent.take_losses() for descent in joint)
    share = of_host.share([of_guest.hidden()], rows, part)
    assert isinstance(share, int)
    return of_guest.open([of_host.hidden()], [share], rows), expected


def test_losses_of_the_batches_of_an_epoch_are_opened_as_one_mean_by_rows():
    found, expected = after_two_batches()
    assert found == pytest.approx(expected, abs=1e-8)


def test_a_hosts_part_moves_the_mean_loss_of_its_rows():
    for deviation in (2.0**-4, UNSHOWN_DEVIATION):
        part = loss_part(deviation, 100)
        found, expected = after_two_batches(part)
        assert found - expected == pytest.approx(part / 100 / 2.0**61, abs=1e-8)
        assert 0 < abs(found - expected) <= 6 * deviation


def test_parts_of_losses_are_normal_to_the_last_bit_and_narrow_by_the_root_of_repeats_alone():
    """The ends of uniform parts bound a loss to one over their number. What is a multiple of more than 1 leaves low bits bare."""
    parts = [loss_part(LOSS_DEVIATION, 1000) for _ in range(4000)]
    apart = np.array(parts, dtype=float) / 1000 / 2.0**61 / LOSS_DEVIATION
    assert abs(apart.mean()) < 5 / np.sqrt(4000) and abs(apart.std() - 1) < 0.06
    assert kstest(apart, "norm").pvalue > 1e-6
    assert np.abs(apart).max() <= 6
    assert chisquare(np.bincount([part % 8 for part in parts])).pvalue > 1e-6


def test_losses_of_different_epochs_are_not_added_up():
    layout = TWO.layout(2048, 12)
    joint, shares = at_weights(TWO, layout, np.ones(TWO.total)), split_quadratic(TWO, *standardised(TWO, seed=1))
    prepared = prepared_by_dealer(shares, layout)
    for _ in range(2):
        run_step(joint, shares, prepared, 0)
    of_guest, of_host = (descent.take_losses() for descent in joint)
    with pytest.raises(ValueError, match="Losses modulo 2 different numbers cannot be added up"):
        of_host.share([of_guest.hidden()], [1, 1])


def test_what_does_not_fit_is_refused():
    layout, rule, zeros = TWO.layout(2048, 2), UpdateRule((0.1,)), [0.0] * 5
    for weights in ([2.0**10 + 1, 0.0], [np.nan, 0.0], [-np.inf, 0.0]):
        with pytest.raises(ValueError, match="An initial weight is not finite or above 1024"):
            SharedDescent(weights, slice(0, 2), layout, rule, zeros, True)
    with pytest.raises(ValueError, match="Own weights must be one per own column, 2, got 3"):
        SharedDescent(np.zeros(3), slice(0, 2), layout, rule, zeros, True)
    with pytest.raises(ValueError, match="There are 4 penalties for 5 weights"):
        SharedDescent(np.zeros(2), slice(0, 2), layout, rule, zeros[1:], True)
    first = SharedDescent(np.zeros(2), slice(0, 2), layout, rule, zeros, True)
    shares = split_quadratic(TWO, *standardised(TWO, seed=1))
    step = prepared_by_dealer(shares, layout)[0].take()
    with pytest.raises(ValueError, match="2 other parties sent weights; there are 1"):
        first.receive(shares[0], step, [[0] * 5] * 2)
    with pytest.raises(ValueError, match="does not hold 5 numbers"):
        first.receive(shares[0], step, [[0] * 4])
    first.receive(shares[0], step, [[0] * 5])
    with pytest.raises(ValueError, match="leading bits of 1 others"):
        first.move(0, [[0] * 5])
    first.move(0)
    with pytest.raises(ValueError, match="losses of another number of steps than 1"):
        first.take_losses().share([[]], [])


@pytest.mark.parametrize(
    "params, message",
    [
        ({"lr": 0.1, "maximize": True}, "maximize True, which shared descent does not take"),
        ({"lr": 0.1, "betas": (0.9, 0.99)}, "optimizer_params has betas"),
        ({"momentum": 1.0}, "momentum must be below 1, .*, got 1.0"),
        ({"momentum": -0.1}, "momentum must be .*, got -0.1"),
        ({"weight_decay": float("inf")}, "weight_decay must be .*, got inf"),
        ({"dampening": float("nan")}, "dampening must be .*, got nan"),
        ({"nesterov": True}, "nesterov needs momentum"),
        ({"nesterov": True, "momentum": 0.5, "dampening": 0.1}, "nesterov needs momentum"),
    ],
)
def test_update_rules_that_are_none_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        UpdateRule.from_sgd(params, [0.1])


def test_where_torch_computes_does_not_matter_and_rates_come_from_the_schedule():
    params = {"lr": 9.0, "foreach": True, "fused": None, "maximize": False, "momentum": 0.5}
    assert UpdateRule.from_sgd(params, [0.1, 0.3]) == UpdateRule((0.1, 0.3), momentum=0.5)
    with pytest.raises(ValueError, match="the learning rate must be finite and not negative, got nan"):
        UpdateRule.from_sgd({}, [0.1, float("nan")])


def test_shares_that_lead_beyond_what_a_training_comes_to_are_refused():
    largest = (1 << 28 + 40) - (1 << 18)
    assert opened_weights([[largest, -largest], [0, 0]]).tolist() == [(1 << 50) - 1, 1 - (1 << 50)]
    for beyond in ([0, 1 << 18], [-(1 << 69), 0]):
        with pytest.raises(ValueError, match="^it gives a coefficient beyond 2.28, to which no training comes[.]$"):
            opened_weights([[0, largest], beyond])
