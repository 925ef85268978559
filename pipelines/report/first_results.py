"""What a first model leaves: a page of the card, its PMML and Python, the bins that were made, the job's report, and its figures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas
import yaml
from scipy.special import logit

from fate_dp.components.dp_scorecard.formats import pmml, python_source
from fate_dp.components.protocols.prediction_frames import NO_FLIPS
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.deploy.flow.home import open_home
from fate_dp.privacy.labels.noisy_metrics import AUC, KS, corrected_figures
from fate_dp.privacy.private_files import atomic_write

from ..jobs.csv_files import TableMeta
from ..jobs.job import task_output_data, task_output_model
from ..jobs.ready import Parties
from ..jobs.text_tables import estimate_text
from .card_page import CardFacts, write_card
from .job_facts import ReportRequest, gather
from .job_page import write_report


@dataclass(frozen=True)
class Outcome:
    """A job that ended well; the task ``scored`` has the scores of held-out rows at the guest, with true labels."""

    address: FlowAddress
    home: Path
    job_id: str
    parties: Parties
    scored: str

    def write(self, out: Path) -> list[str]:
        """Write the job's report into ``out``; returns the figures, and where it is."""
        asked = ReportRequest(self.address, self.job_id, open_home(self.home).parties, self.parties.guest, self.home)
        report, _ = write_report(gather(asked), out, "report")
        figures, rows = self.figures
        return [*(f"{name} on {rows} held-out rows: {text}" for name, text in figures.items()), f"Report: {report}"]

    def write_card(self, out: Path, host_names: bool, epsilon: float, metas: tuple[TableMeta, TableMeta]) -> list[str]:
        """The same of a scorecard, with its page, PMML and Python, and the rules that make its bins again at no epsilon."""
        document, own, hosts = (
            self._model(role, task)
            for role, task in (("guest", "dp_scorecard_0"), ("guest", "dp_binning_0"), ("host", "dp_binning_0"))
        )
        rules = {
            role: {each["name"]: rule_of(each) for each in model["bins"]}
            for role, model in (("guest", own), ("host", hosts))
        }
        atomic_write(out / "bins.yaml", yaml.safe_dump(rules, allow_unicode=True, sort_keys=False))
        host, texts = f"host {self.parties.host}", {"guest": metas[0].categories}
        if host_names:
            texts[host] = metas[1].categories
        else:
            hosts = {"bins": [{**each, "name": f"x{at}"} for at, each in enumerate(hosts["bins"])]}
        binning = {"guest": own, host: hosts}
        figures, rows = self.figures
        write_card(out / "card.html", document, binning, CardFacts(figures, rows, epsilon, self.job_id, texts))
        atomic_write(out / "card.json", json.dumps({"model": document, "binning": binning}, ensure_ascii=False))
        atomic_write(out / "card.pmml", pmml(document, binning))
        atomic_write(out / "card.py", python_source(document, binning))
        return [*self.write(out), *(f"{what}: {out / name}" for what, name in WRITTEN.items())]

    @cached_property
    def figures(self) -> tuple[dict[str, str], int]:
        """Measures with 95 % intervals, as text, and of how many rows."""
        found = task_output_data(self.address, self.job_id, "guest", self.parties.guest, self.scored)
        (tables,) = found.values()
        rows = pandas.concat(tables if isinstance(tables, list) else [tables])
        scores = logit(rows["predict_score"].to_numpy(float).clip(1e-12, 1 - 1e-12))
        figures = corrected_figures(rows["label"].to_numpy(int), scores, NO_FLIPS)
        return {
            name: estimate_text(figures[name].estimate, figures[name].standard_error, 0.0) for name in (AUC, KS)
        }, len(rows)

    def _model(self, role: str, task: str) -> dict[str, Any]:
        return task_output_model(self.address, self.job_id, role, getattr(self.parties, role), task)["output_model"]


WRITTEN = {"Card": "card.html", "PMML": "card.pmml", "Python": "card.py", "Model": "card.json", "Bins": "bins.yaml"}


def rule_of(bins: dict[str, Any]) -> dict[str, Any]:
    """The rule that makes these bins again: they are public now."""
    given = {name: bins[name] for name in bins.keys() - {"name", "missing"} if bins[name]}
    return given or {"cuts": [0.0]}
