"""dp_binning: quantiles, and counts by bin."""

from ..planting import Mutant, contract

LABEL, RECORD = "dp_binning / train / label, Gaussian", "dp_binning / train / record, Laplace"
AGREEMENT, SUMS, OWN, PARTY = (
    f"components.dp_binning.{each}" for each in ("agreement", "label_sums", "own_columns", "party")
)

MUTANTS = (
    Mutant(
        "dp_binning gives each quantile column the whole epsilon",
        "B",
        f"{OWN}:table_bins",
        (("epsilon / len(cut)", "epsilon"),),
        contract(LABEL, "a"),
        patch="bin5_each_quantile_column_full_epsilon",
    ),
    Mutant(
        "dp_binning charges a quantile column as if there were one more",
        "A",
        f"{OWN}:quantile_charges",
        (("epsilon / max(len(cut), 1)", "epsilon / (len(cut) + 1)"),),
        contract(LABEL, "a"),
    ),
    Mutant(
        "dp_binning charges one quantile column of two",
        "B",
        f"{OWN}:quantile_charges",
        (("levels.get(each.quantiles, 0) + quantile_levels", "quantile_levels"),),
        contract(LABEL, "a"),
    ),
    Mutant(
        "dp_binning opens exact sums of labels",
        "A",
        f"{SUMS}:serve_hosts",
        (("+ int(more) for", "for"),),
        contract(LABEL, "a"),
    ),
    Mutant(
        "dp_binning opens exact sums to all hosts but the first",
        "B",
        f"{SUMS}:serve_hosts",
        (("if noise is None else", "if noise is None or name != next(iter(hosts)) else"),),
        contract(LABEL, "a"),
    ),
    Mutant(
        "dp_binning draws noise of another unit",
        "A",
        f"{SUMS}:serve_hosts",
        (("else noise.draw(bins[name])", "else noise.draw(bins[name]) >> 1"),),
        contract(LABEL, "a"),
    ),
    Mutant(
        "dp_binning adds no noise to a party's own counts",
        "A",
        f"{PARTY}:with_own_noise",
        (("if own.settings.privacy != RECORD or own.noise is None:", "if True:"),),
        contract(RECORD, "a"),
    ),
    Mutant(
        "dp_binning adds one draw to both counts of a bin",
        "C",
        f"{PARTY}:with_own_noise",
        (
            (
                "own.noise.draw((2, counts.events.size)) / 2.0**FRACTION_BITS",
                "[own.noise.draw(counts.events.size) / 2.0**FRACTION_BITS] * 2",
            ),
        ),
        contract(RECORD, "a"),
    ),
    Mutant(
        "dp_binning publishes exact counts of other labels",
        "B",
        f"{PARTY}:with_own_noise",
        (("counts.others + others", "counts.others"),),
        contract(RECORD, "a"),
    ),
    Mutant(
        "a binning host takes a record to be in one column",
        "B",
        f"{AGREEMENT}:HostAgreement.check",
        (("self.add_noise(len(self.rules), 0,", "self.add_noise(1, 0,"),),
        contract(RECORD, "a"),
    ),
    Mutant(
        "a binning guest counts the columns of the first host alone",
        "B",
        f"{AGREEMENT}:GuestAgreement.commit",
        (
            (
                'columns, bins = sum(facts["columns"] for facts in hosts.values())',
                'columns, bins = next(iter(hosts.values()))["columns"]',
            ),
        ),
        contract(LABEL, "a"),
    ),
    Mutant(
        "a binning guest leaves its own columns out of the noise for records",
        "A",
        f"{AGREEMENT}:GuestAgreement.commit",
        (("self.add_noise(len(self.rules), columns,", "self.add_noise(0, columns,"),),
        contract(RECORD, "a"),
    ),
    Mutant(
        "dp_binning charges its quantiles or its noise, not both",
        "B",
        f"{AGREEMENT}:BinningAgreement.add_noise",
        (("[*self.charged, (", "[("),),
        contract(RECORD, "a"),
    ),
    Mutant(
        "a binning host is charged after it has sent its masked sums",
        "E",
        f"{PARTY}:train",
        (
            ("    own.charge()\n", "    if isinstance(own, GuestAgreement):\n        own.charge()\n"),
            (
                "        counts = ones_and_others(events, bin_totals(codes, bins))\n",
                "        counts = ones_and_others(events, bin_totals(codes, bins))\n        own.charge()\n",
            ),
        ),
        contract(LABEL, "b"),
        equivalent="",
    ),
    Mutant(
        "a binning guest is charged after it has served the hosts",
        "E",
        f"{PARTY}:train",
        (
            ("    own.charge()\n", "    if not isinstance(own, GuestAgreement):\n        own.charge()\n"),
            (
                "    output_data.write(",
                "    if isinstance(own, GuestAgreement):\n        own.charge()\n    output_data.write(",
            ),
        ),
        contract(LABEL, "b"),
    ),
    Mutant(
        "dp_binning does not ask the cap",
        "F",
        f"{AGREEMENT}:BinningAgreement.check_cap",
        (("            self.charges.check(self.charged)\n", ""),),
        contract(LABEL, "d"),
    ),
    Mutant(
        "a binning guest does not compare the parties' privacy",
        "F",
        f"{AGREEMENT}:GuestAgreement.commit",
        (
            (
                "require_same(self.asked,",
                'require_same({name: value for name, value in self.asked.items() if name != "privacy"},',
            ),
        ),
        contract(LABEL, "e"),
    ),
    Mutant(
        "a binning guest does not ask whether rows are the same",
        "F",
        f"{AGREEMENT}:GuestAgreement.commit",
        (("        frames.check_aligned(self.frame, hosts)\n", ""),),
        contract(LABEL, "e"),
    ),
    Mutant(
        "dp_binning refuses private labels that are all alike",
        "D",
        f"{AGREEMENT}:GuestAgreement.check",
        (("            refuse_derived_labels(self.frame)\n", "            self._check_classes()\n"),),
        ("tests/contract/test_labels_alike.py::test_a_job_goes_on[dp_binning / train / label, Gaussian-0.0]",),
    ),
    Mutant(
        "dp_binning names a column whose values it does not like",
        "D",
        f"{OWN}:_cell_counts",
        (
            (
                "    return np.stack",
                '    if not np.isfinite(features).all():\n        raise ValueError("Column x2 has a missing value.")\n    return np.stack',
            ),
        ),
        contract(LABEL, "d"),
    ),
)
