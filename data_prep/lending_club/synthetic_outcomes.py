"""What became of the invented loans by January 2016: status, payments, recoveries.

Whether a finished loan was charged off is drawn from a logistic model of columns known at application, so that a
classifier learns about as much as on the real rows. Everything else here follows from the outcome, as in
the public file: whoever trains on these columns predicts what they were written from.
"""
import numpy as np

from fate_dp.data_prep.lending_club.columns import OUTSIDE_POLICY
from fate_dp.data_prep.lending_club.synthetic_applications import months_of
from fate_dp.data_prep.lending_club.synthetic_draws import choose, happens, shown
from fate_dp.data_prep.lending_club.synthetic_vocabulary import (
    HOMES, ISSUE_YEARS, PURPOSES, STATUSES, month_number,
)  # fmt: skip

SNAPSHOT = month_number(2016, 1)
# Share of the loans of each year that are paid back or written off.
FINISHED = np.array((1.0, 1.0, 1.0, 0.97, 0.9, 0.85, 0.5, 0.31, 0.075))
TENANT, SMALL_BUSINESS, LONG_TERM = list(HOMES).index("RENT"), list(PURPOSES).index("small_business"), 1

# Of unfinished loans, and how many payments each lacks.
RUNNING = {
    "Current": (96.6, 0), "Late (31-120 days)": (1.85, 3), "In Grace Period": (1.0, 1), "Late (16-30 days)": (0.35, 1),
    "Default": (0.2, 6),
}  # fmt: skip
ISSUED_SINCE, ISSUED_SHARE = month_number(2015, 12), 0.25
POLICY_SINCE, OUTSIDE_POLICY_SHARE = month_number(2011, 1), 0.13
COLLECTION_FEE = 0.18


def draw_outcomes(table, generator) -> dict:
    """The columns written after the loan was made, for the applications of ``table``."""
    rows = len(table["issue_d"])
    bad = happens(generator, rows, charge_off_probability(table))
    finished = happens(generator, rows, FINISHED[(table["issue_d"] - month_number(min(ISSUE_YEARS), 1)) // 12])
    status = draw_status(generator, table["issue_d"], bad, finished)
    paid = payments_made(generator, table, status, bad, finished)
    money = draw_money(generator, table, paid, bad, finished)
    dates = draw_dates(generator, table["issue_d"], paid, finished)
    return {"loan_status": status, "pymnt_plan": happens(generator, rows, 1e-5).astype(np.int64)} | money | dates


def charge_off_probability(table):
    """The chance of each loan to be charged off once it is finished; a missing value counts as a typical one."""
    # Round slopes, rate and income the largest, with which a logistic regression does about as well as on real loans.
    log_odds = (
        -1.98
        + 0.5 * (table["int_rate"] - 13) / 4.4
        - 0.6 * np.log(known(table["annual_inc"], 65000) / 65000)
        + 0.1 * (table["dti"] - 18) / 8.3
        + 0.15 * (known(table["revol_util"], 55) - 55) / 24
        + 0.13 * known(table["inq_last_6mths"], 0)
        + 0.37 * (table["term"] == LONG_TERM)
        + 0.12 * (table["home_ownership"] == TENANT)
        + 0.7 * (table["purpose"] == SMALL_BUSINESS)
    )
    return 1 / (1 + np.exp(-log_odds))


def draw_status(generator, issued, bad, finished):
    """Codes into STATUSES."""
    rows = len(issued)
    running = np.array([STATUSES.index(name) for name in RUNNING])
    running = running[choose(generator, rows, [share for share, _ in RUNNING.values()])]
    just_issued = (issued >= ISSUED_SINCE) & happens(generator, rows, ISSUED_SHARE)
    outside = (issued < POLICY_SINCE) & happens(generator, rows, OUTSIDE_POLICY_SHARE)
    ended = bad + STATUSES.index(OUTSIDE_POLICY + "Fully Paid") * outside
    return np.where(finished, ended, np.where(just_issued, STATUSES.index("Issued"), running))


def payments_made(generator, table, status, bad, finished):
    """Monthly payments until January 2016; one that repays all the rest counts as one."""
    term = months_of(table["term"])
    possible = np.minimum(SNAPSHOT - table["issue_d"], term)
    luck = generator.random(len(term))
    behind = np.zeros(len(STATUSES))
    behind[[STATUSES.index(name) for name in RUNNING]] = [months for _, months in RUNNING.values()]
    behind[STATUSES.index("Issued")] = np.inf
    ended = np.where(bad, np.floor(0.7 * luck * possible), np.ceil(possible * luck**0.6))
    running = np.maximum(np.minimum(possible, term - 1) - behind[status], 0)
    return np.where(finished, ended, running)


def draw_money(generator, table, paid, bad, finished):
    """All amounts in dollars, to the cent."""
    rows, funded = len(paid), table["funded_amnt"]
    repaid = finished & ~bad
    owed = balance_after(table, paid)
    left = np.where(repaid, 0.0, owed)
    principal = funded - left
    interest = np.maximum(np.round(table["installment"] * paid - (funded - owed), 2), 0)
    fee = np.round(15 + 15 * generator.random(rows), 2)
    late_fee = np.where(happens(generator, rows, np.where(bad, 0.15, 0.01)), fee, 0)
    written_off = finished & bad
    recovered = np.round(left * np.minimum(0.1 * generator.exponential(1.0, rows), 1), 2)
    recoveries = np.where(written_off & happens(generator, rows, 0.55), recovered, 0.0)
    rest = np.round(balance_after(table, np.maximum(paid - 1, 0)) * (1 + table["int_rate"] / 1200), 2)
    total = np.round(principal + interest + late_fee + recoveries, 2)
    investors = table["funded_amnt_inv"] / funded
    outstanding = np.where(finished, 0.0, left)
    return {
        "out_prncp": outstanding,
        "out_prncp_inv": np.round(outstanding * investors, 2),
        "total_pymnt": total,
        "total_pymnt_inv": np.round(total * investors, 2),
        "total_rec_prncp": np.round(principal, 2),
        "total_rec_int": interest,
        "total_rec_late_fee": late_fee,
        "recoveries": recoveries,
        "collection_recovery_fee": np.round(COLLECTION_FEE * recoveries, 2),
        "last_pymnt_amnt": np.where(repaid, rest, np.where(paid > 0, table["installment"], 0.0)),
    }


def draw_dates(generator, issued, paid, finished):
    rows = len(paid)
    last = issued + paid.astype(np.int64)
    pulled = np.where(finished, last + generator.integers(0, 12, rows), SNAPSHOT - happens(generator, rows, 0.15))
    return {
        "last_pymnt_d": shown(last, paid > 0),
        "next_pymnt_d": shown(SNAPSHOT + happens(generator, rows, 0.8), ~finished),
        "last_credit_pull_d": shown(np.minimum(pulled, SNAPSHOT), ~happens(generator, rows, 6e-5)),
    }


def balance_after(table, payments):
    """Principal in dollars that is still owed after a number of payments on schedule."""
    growth = 1 + table["int_rate"] / 1200
    whole = growth ** months_of(table["term"])
    return np.round(table["funded_amnt"] * (whole - growth**payments) / (whole - 1), 2)


def known(values, typical):
    return np.where(np.isnan(values), typical, values)
