"""What stands between a component and its party's ledger."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from fate_dp.components.common import provenance
from fate_dp.components.common.charges import Charges, home_of
from fate_dp.components.common.preflight import Refused, agree
from fate_dp.components.common.provenance import LabelPrivacy
from fate_dp.components.protocols.messages import AGREEMENT
from fate_dp.data_prep import SYNTHETIC_PREFIX
from fate_dp.privacy import BudgetExceeded
from fate_dp.privacy.events import REPLACE_ONE, Event, PureDP
from fate_dp.privacy.labels.flips import LabelRelease
from fate_dp.privacy.private_files import party_folder
from fate_dp.testing import frame_at, play

GUEST, HOST = ("guest", "9999"), ("host", "10000")
STEP = (Event(PureDP(1.0), "record", REPLACE_ONE, ("host",)), 1)
NAMES = [f"person {row}" for row in range(6)]
TABLE = pd.DataFrame({"sample_id": NAMES, "id": NAMES, "x0": np.arange(6.0), "x1": np.arange(6.0)})


def played(step, home, *, policy="", parties=(GUEST,), task="task"):
    """What ``step`` returns at the guest."""
    folder = party_folder(home, GUEST[1])
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "policy.yaml").write_text(policy)
    (folder / "policy.yaml").chmod(0o600)
    return play(step, parties, home, messages={}, task=task).check().values[GUEST]


def charges(ctx, table=TABLE):
    return Charges(ctx, frame_at(ctx, table), "No.")


def test_what_another_job_took_after_the_check_is_not_charged_again(tmp_path):
    def step(ctx):
        first, second = charges(ctx), charges(ctx)
        first.check([STEP])
        second.check([STEP])
        first.record([STEP], "first")
        with pytest.raises(BudgetExceeded):
            second.record([STEP], "second")

    played(step, tmp_path, policy="default_dataset_cap: {epsilon: 1.5, delta: 1.0e-6}\n")


def test_the_same_step_of_the_same_task_is_charged_each_time(tmp_path):
    def step(ctx):
        own = charges(ctx)
        own.record([STEP], "twice")
        own.record([STEP], "twice")
        with pytest.raises(BudgetExceeded):
            own.record([STEP], "a third time")

    played(step, tmp_path, policy="default_dataset_cap: {epsilon: 2.5, delta: 1.0e-6}\n")


def test_a_part_of_a_table_has_the_cap_of_the_whole(tmp_path):
    whole = played(lambda ctx: charges(ctx).dataset, tmp_path)

    def step(ctx):
        part = charges(ctx, TABLE.drop(columns="x1"))
        assert part.dataset != whole
        with pytest.raises(ValueError, match="epsilon"):
            part.check([STEP])

    played(step, tmp_path, policy=f'dataset_caps: {{"{whole}": {{epsilon: 0.5, delta: 1.0e-6}}}}\n', task="two")


def test_of_several_releases_that_labels_agree_with_the_largest_counts(monkeypatch):
    known = {
        source: LabelPrivacy(source, (LabelRelease(source, epsilon),)) for source, epsilon in (("a", 1.0), ("b", 3.0))
    }
    monkeypatch.setattr(provenance, "_found", lambda home, frame, source: known[source])
    home = SimpleNamespace(ledger=SimpleNamespace(sources=lambda key: list(known)), key_id="key")
    assert provenance.find_label_privacy(home, None, None).epsilon == 3.0


def test_a_check_that_breaks_tells_others_nothing_of_its_error(tmp_path):
    def step(ctx):
        def check():
            if not ctx.is_on_guest:
                raise KeyError("row 17 holds 0.4711")
            return {}

        with pytest.raises(Refused) as refused:
            agree(ctx, check)
        return str(refused.value)

    found = play(step, (GUEST, HOST), tmp_path, messages=AGREEMENT).check().values
    assert "host 10000" in found[GUEST] and "0.4711" not in found[GUEST] and "KeyError" in found[HOST]


def test_noise_protects_no_record_of_an_over_sampled_table(tmp_path):
    def step(ctx):
        charges(ctx).check([STEP])
        with pytest.raises(ValueError):
            charges(ctx, TABLE.assign(id=[f"{SYNTHETIC_PREFIX}{each}" for each in NAMES])).check([STEP])

    played(step, tmp_path, policy="default_dataset_cap: {epsilon: 50, delta: 1.0e-6}\n")


def test_a_source_is_one_that_the_operator_declared(tmp_path):
    def step(ctx):
        with pytest.raises(ValueError, match="is not declared"):
            provenance.check_source(home_of(ctx), frame_at(ctx, TABLE.assign(y=1.0)), "made/up/y")

    played(step, tmp_path)


def test_a_client_that_over_samples_its_own_rows_keeps_its_guarantee_for_labels_too(tmp_path):
    table = TABLE.assign(id=[f"{SYNTHETIC_PREFIX}{row}" for row in range(6)], y=[0.0, 1.0] * 3)
    of_client = (Event(PureDP(1.0), "client", REPLACE_ONE, ("host",)), 1)

    def step(ctx):
        own = charges(ctx, table)
        own.check([of_client])
        own.record([of_client], "a step")
        return {entry["unit"]: entry["epsilon"] for entry in home_of(ctx).ledger.entries(0.0)}

    assert played(step, tmp_path) == {"client": 1.0, "label": 1.0}
