"""Draws that the invented loans are put together from."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.special import ndtr

from fate_dp.data_prep.lending_club.columns import FULLY_PAID, LABEL_VALUES, OTHER_STATUSES, OUTSIDE_POLICY

Table = dict[str, np.ndarray]
"""Columns of one length: float64 with nan where a value is missing, int64 codes into `CATEGORIES` or months since January
1950, both with -1 where a value is missing."""


def blend(generator: np.random.Generator, *weighted: tuple[float, np.ndarray]) -> np.ndarray:
    """Standard normals that correlate with each (weight, factor) by its weight, where the factors are independent."""
    rest = 1 - sum(weight**2 for weight, _ in weighted)
    noise = generator.standard_normal(len(weighted[0][1]))
    return sum(weight * factor for weight, factor in weighted) + np.sqrt(rest) * noise


def choose(generator: np.random.Generator, rows: int, shares: Iterable[float]) -> np.ndarray:
    """Codes 0, 1, ... of type int64 in proportion to ``shares``, each row on its own."""
    return cut(generator.random(rows), shares)


def choose_by(factor: np.ndarray, shares: Iterable[float]) -> np.ndarray:
    """Codes in proportion to ``shares``: the lowest values of a standard normal ``factor`` get the first code."""
    return cut(ndtr(factor), shares)


def cut(ranks: np.ndarray, shares: Iterable[float]) -> np.ndarray:
    limits = np.cumsum(list(shares), dtype=float)
    return np.searchsorted(limits[:-1] / limits[-1], ranks, side="right").astype(np.int64)


def happens(generator: np.random.Generator, rows: int, share: float | np.ndarray) -> np.ndarray:
    """True in about a ``share`` of the rows; ``share`` may be one number or one per row."""
    return generator.random(rows) < share


def shown(values: np.ndarray, present: np.ndarray) -> np.ndarray:
    """``values`` where ``present``, elsewhere missing: -1 among codes and months, nan among numbers."""
    return np.where(present, values, -1 if values.dtype.kind == "i" else np.nan)


# Categories of the invented loans with their shares in percent, round figures after the file's published marginals.

FIRST_YEAR = 1950
MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _shares(text: str) -> dict[str, float]:
    """Names and numbers of a list such as 'own 9.9, rent 40.1'."""
    pairs = (entry.rsplit(maxsplit=1) for entry in text.split(","))
    return {name.strip(): float(number) for name, number in pairs}


EMPLOYMENT = _shares(
    """
    < 1 year 7.9, 1 year 6.4, 2 years 8.9, 3 years 7.9, 4 years 5.9, 5 years 6.3, 6 years 4.8, 7 years 5,
    8 years 5, 9 years 3.9, 10+ years 33, n/a 5
    """
)
# In the order in which wealth falls.
HOMES = {"MORTGAGE": 49.97, "OWN": 9.9, "RENT": 40.1, "OTHER": 0.02, "NONE": 0.006, "ANY": 0.0004}
VERIFICATIONS = {"Source Verified": 37.1, "Verified": 32.8, "Not Verified": 30.1}
PURPOSES = _shares(
    """
    debt_consolidation 59.1, credit_card 23.2, home_improvement 5.8, other 4.8, major_purchase 1.9,
    small_business 1.2, car 1, medical 1, moving 0.6, vacation 0.5, house 0.4, wedding 0.3,
    renewable_energy 0.07, educational 0.05
    """
)
GRADES = {"A": 16.7, "B": 28.7, "C": 27.7, "D": 15.7, "E": 8.0, "F": 2.6, "G": 0.6}
SUB_GRADES = tuple(f"{grade}{step}" for grade in GRADES for step in range(1, 6))
ISSUE_YEARS = {2007: 0.07, 2008: 0.27, 2009: 0.6, 2010: 1.4, 2011: 2.45, 2012: 6.0, 2013: 15.2, 2014: 26.5, 2015: 47.5}
# Share, and the first and the last three digits of the state's post codes.
_STATES = """
    CA 14.6 900 961, NY 8.4 100 149, TX 8 750 799, FL 6.9 320 349, IL 4 600 629, NJ 3.8 70 89, PA 3.5 150 196,
    OH 3.3 430 458, GA 3.3 300 319, VA 3 220 246, NC 2.8 270 289, MI 2.6 480 499, MD 2.4 206 219, MA 2.3 10 27,
    AZ 2.3 850 865, WA 2.2 980 994, CO 2.1 800 816, MN 1.8 550 567, MO 1.6 630 658, IN 1.6 460 479,
    CT 1.5 60 69, TN 1.5 370 385, NV 1.4 889 898, WI 1.3 530 549, AL 1.3 350 369, OR 1.2 970 979,
    SC 1.2 290 299, LA 1.2 700 714, KY 1 400 427, OK 0.9 730 749, KS 0.9 660 679, AR 0.7 716 729,
    UT 0.7 840 847, NM 0.6 870 884, HI 0.5 967 968, WV 0.5 247 268, NH 0.5 30 38, RI 0.4 28 29, MS 0.4 386 397,
    MT 0.3 590 599, DE 0.3 197 199, DC 0.3 200 205, AK 0.25 995 999, WY 0.23 820 831, SD 0.2 570 577,
    VT 0.2 50 59, NE 0.1 680 693, ME 0.06 39 49, ND 0.05 580 588, ID 0.002 832 838, IA 0.002 500 528
"""
STATES = {
    state: (float(share), int(first), int(last))
    for state, share, first, last in (entry.split() for entry in _STATES.split(","))
}

STATUSES = (*LABEL_VALUES, *OTHER_STATUSES)

CATEGORIES = {
    "term": (" 36 months", " 60 months"),
    "grade": tuple(GRADES),
    "sub_grade": SUB_GRADES,
    "emp_length": tuple(EMPLOYMENT),
    "home_ownership": tuple(HOMES),
    "verification_status": tuple(VERIFICATIONS),
    "verification_status_joint": tuple(VERIFICATIONS),
    "loan_status": STATUSES,
    "pymnt_plan": ("n", "y"),
    "purpose": tuple(PURPOSES),
    "zip_code": tuple(f"{digits:03}xx" for digits in range(1000)),
    "addr_state": tuple(STATES),
    "initial_list_status": ("f", "w"),
    "application_type": ("INDIVIDUAL", "JOINT"),
}


def month_number(year: int, month: int) -> int:
    """Months since January 1950; ``month`` counts from 1."""
    return 12 * (year - FIRST_YEAR) + month - 1


def month_labels() -> tuple[str, ...]:
    """'Jan-1950', 'Feb-1950', ... : what month number 0, 1, ... looks like in the file."""
    return tuple(f"{name}-{year}" for year in range(FIRST_YEAR, FIRST_YEAR + 80) for name in MONTH_NAMES)


# Invented loan applications: what the applicant states, what the credit file says, and the terms offered.
#
# Every distribution is a round parametric one that imitates the published marginals of the public file (medians, spreads,
# shares of categories, shares of missing values); none was fitted to a row. Three hidden normal factors tie the columns
# together: wealth, appetite for credit, and quality of the credit history.

STEPS = len(SUB_GRADES) // len(GRADES)
SUB_GRADE_SHARES = tuple(share for share in GRADES.values() for _ in range(STEPS))
# Percent a year by sub-grade A1 to G5, and what the lender added or took off in each year.
RATES = np.interp(
    np.arange(len(SUB_GRADES)), (0, 5, 10, 15, 20, 25, 30, 34), (5.9, 9.2, 12.6, 15.8, 18.7, 21.9, 25.2, 27.6)
)
RATE_STEPS = np.array((0.0, 0.6, 0.9, 0.5, 0.4, 0.9, 1.0, 0.0, -0.3))
LONG_TERM_SHARE = 0.3
MIN_LOAN, MAX_LOAN = 500, 35000

# Shares of all rows in which a few values are missing, together, without any pattern.
GAPS = {
    ("annual_inc",): 5e-6,
    ("delinq_2yrs", "earliest_cr_line", "inq_last_6mths", "open_acc", "pub_rec", "total_acc", "acc_now_delinq"): 3.3e-5,
    ("revol_util",): 5.7e-4,
    ("collections_12_mths_ex_med",): 1.6e-4,
}
# The lender began to publish these with the loans of some month; the last ones for part of them only.
BALANCES_SINCE, BALANCES = month_number(2012, 8), ("tot_coll_amt", "tot_cur_bal", "total_rev_hi_lim")
DETAILS_SINCE, DETAILS_SHARE = month_number(2015, 12), 0.6
JOINT_SINCE, JOINT_SHARE = month_number(2015, 10), 0.005


def draw_applications(rows: int, generator: np.random.Generator) -> Table:
    """The columns known when an application is decided, and ``issue_d``; the free texts are drawn elsewhere."""
    wealth, appetite, quality = generator.standard_normal((3, rows))
    table = draw_applicant(generator, wealth)
    table |= draw_revolving_credit(generator, wealth, appetite, quality)
    table |= draw_past_trouble(generator, quality)
    table |= draw_terms(generator, wealth, appetite, quality)
    table |= draw_funding(generator, table)
    table |= draw_joint_application(generator, table)
    table |= draw_credit_details(generator, table["issue_d"])
    owed = np.where(table["home_ownership"] == list(HOMES).index("MORTGAGE"), 200000, 35000)
    table["tot_cur_bal"] = np.floor(owed * np.exp(0.8 * blend(generator, (0.4, wealth))))
    for column in BALANCES:
        table[column] = shown(table[column], table["issue_d"] >= BALANCES_SINCE)
    for columns, share in GAPS.items():
        present = ~happens(generator, rows, share)
        table |= {column: shown(table[column], present) for column in columns}
    return table


def draw_applicant(generator: np.random.Generator, wealth: np.ndarray) -> Table:
    rows = len(wealth)
    income = 65000 * np.exp(0.52 * wealth)
    state = choose(generator, rows, [share for share, _, _ in STATES.values()])
    first, last = np.array([zips for _, *zips in STATES.values()])[state].T
    return {
        "annual_inc": np.where(happens(generator, rows, 0.7), 1000 * np.ceil(income / 1000), np.round(income)),
        "emp_length": choose(generator, rows, EMPLOYMENT.values()),
        "purpose": choose(generator, rows, PURPOSES.values()),
        "verification_status": choose(generator, rows, VERIFICATIONS.values()),
        "home_ownership": choose_by(blend(generator, (-0.5, wealth)), HOMES.values()),
        "addr_state": state,
        "zip_code": first + (generator.random(rows) * (last - first + 1)).astype(np.int64),
    }


def draw_revolving_credit(
    generator: np.random.Generator, wealth: np.ndarray, appetite: np.ndarray, quality: np.ndarray
) -> Table:
    limit = 100 * np.ceil(235 * np.exp(0.75 * blend(generator, (0.5, wealth), (0.4, appetite))))
    used = np.clip(55 + 24 * blend(generator, (0.3, appetite), (-0.5, quality)), 0, 130)
    accounts = np.ceil(10.5 * np.exp(0.43 * blend(generator, (0.25, wealth), (0.45, appetite))))
    return {
        "total_rev_hi_lim": limit,
        "revol_util": np.round(used, 1),
        "revol_bal": np.floor(limit * used / 100),
        "open_acc": accounts,
        "total_acc": accounts + np.floor(12 * np.exp(0.6 * blend(generator, (0.3, wealth)))),
        "dti": np.round(np.clip(18 + 8.3 * blend(generator, (-0.2, wealth), (0.5, appetite)), 0, 39.99), 2),
    }


def draw_past_trouble(generator: np.random.Generator, quality: np.ndarray) -> Table:
    rows = len(quality)
    laws = {"inq_last_6mths": (0.55, 0.7), "delinq_2yrs": (0.17, 1.1), "pub_rec": (0.12, 1.0)}
    table = {
        column: generator.poisson(mean * np.exp(spread * blend(generator, (-0.5, quality)))).astype(float)
        for column, (mean, spread) in laws.items()
    }
    recent = table["delinq_2yrs"] > 0
    months = np.where(recent, 24 * generator.random(rows), 24 + generator.exponential(22, rows))
    record = np.floor(20 + 100 * generator.random(rows))
    derogatory = np.floor(np.minimum(5 + generator.gamma(2.0, 20.0, rows), 180))
    collected = np.floor(500 * np.exp(generator.standard_normal(rows)))
    return table | {
        "mths_since_last_delinq": shown(np.floor(np.minimum(months, 180)), recent | happens(generator, rows, 0.36)),
        "mths_since_last_record": shown(record, table["pub_rec"] > 0),
        "mths_since_last_major_derog": shown(derogatory, happens(generator, rows, 0.25)),
        "acc_now_delinq": happens(generator, rows, 0.005).astype(float),
        "collections_12_mths_ex_med": happens(generator, rows, 0.013).astype(float),
        "tot_coll_amt": np.where(happens(generator, rows, 0.13), collected, 0.0),
    }


def draw_terms(generator: np.random.Generator, wealth: np.ndarray, appetite: np.ndarray, quality: np.ndarray) -> Table:
    """Amount, term, month of issue, grade and rate; who borrows for longer is graded as riskier."""
    rows = len(wealth)
    size = blend(generator, (0.5, wealth), (0.25, appetite))
    asked = np.clip(12200 * np.exp(0.65 * size), MIN_LOAN, MAX_LOAN)
    step = np.where(happens(generator, rows, 0.6), 1000, 25)
    longer = choose_by(blend(generator, (0.45, size)), (1 - LONG_TERM_SHARE, LONG_TERM_SHARE))
    standard_longer = (longer - LONG_TERM_SHARE) / np.sqrt(LONG_TERM_SHARE * (1 - LONG_TERM_SHARE))
    year = choose(generator, rows, ISSUE_YEARS.values())
    issued = month_number(min(ISSUE_YEARS), 1) + 12 * year + generator.integers(0, 12, rows)
    history = np.round(190 * np.exp(0.45 * blend(generator, (0.3, quality)))).astype(np.int64)
    sub_grade = choose_by(blend(generator, (-0.62, quality), (0.4, standard_longer)), SUB_GRADE_SHARES)
    return {
        "loan_amnt": step * np.ceil(asked / step),
        "term": longer,
        "issue_d": issued,
        "earliest_cr_line": np.maximum(issued - 36 - history, 0),
        "sub_grade": sub_grade,
        "grade": sub_grade // STEPS,
        "int_rate": np.round(RATES[sub_grade] + RATE_STEPS[year], 2),
    }


def draw_funding(generator: np.random.Generator, table: Table) -> Table:
    """What was lent of the amount asked for, mostly all of it, and the instalment that repays it in equal parts."""
    amount, rows = table["loan_amnt"], len(table["loan_amnt"])
    cut_down = happens(generator, rows, 0.003) & (amount >= 2000)
    funded = np.where(cut_down, amount - 1000, amount)
    monthly = table["int_rate"] / 1200
    short = np.where(happens(generator, rows, 0.13), 25.0 * generator.integers(1, 9, rows), 0.0)
    return {
        "funded_amnt": funded,
        "funded_amnt_inv": funded - short,
        "installment": np.round(funded * monthly / (1 - (1 + monthly) ** -months_of(table["term"])), 2),
        "initial_list_status": choose(generator, rows, (51.5, 48.5)),
        "policy_code": np.ones(rows),
    }


def draw_joint_application(generator: np.random.Generator, table: Table) -> Table:
    joint = (table["issue_d"] >= JOINT_SINCE) & happens(generator, len(table["issue_d"]), JOINT_SHARE)
    return {
        "application_type": joint.astype(np.int64),
        "annual_inc_joint": shown(np.round(1.6 * table["annual_inc"]), joint),
        "dti_joint": shown(np.round(0.8 * table["dti"], 2), joint),
        "verification_status_joint": shown(table["verification_status"], joint),
    }


def draw_credit_details(generator: np.random.Generator, issued: np.ndarray) -> Table:
    rows = len(issued)
    present = (issued >= DETAILS_SINCE) & happens(generator, rows, DETAILS_SHARE)
    borrower = present & happens(generator, rows, 0.97)
    means = _shares(
        "open_acc_6m 1.1, open_il_6m 2.9, open_il_12m 0.8, open_il_24m 1.7, open_rv_12m 1.4, open_rv_24m 3.0, inq_fi 0.9, "
        "total_cu_tl 1.5, inq_last_12m 2.0"
    )
    counts = {column: shown(generator.poisson(mean, rows).astype(float), present) for column, mean in means.items()}
    used = np.round(np.clip(generator.normal(70, 20, (2, rows)), 0, 150), 1)
    balance, highest = np.floor(((25000,), (4500,)) * np.exp(0.9 * generator.standard_normal((2, rows))))
    return counts | {
        "mths_since_rcnt_il": shown(np.ceil(generator.exponential(21, rows)), borrower),
        "il_util": shown(used[0], borrower & happens(generator, rows, 0.9)),
        "all_util": shown(used[1], present),
        "total_bal_il": shown(balance, present),
        "max_bal_bc": shown(highest, present),
    }


def months_of(term: np.ndarray) -> np.ndarray:
    """36.0 or 60.0 for the codes of ``term``."""
    return np.where(term == 1, 60.0, 36.0)


# What became of the invented loans by January 2016: status, payments, recoveries.
#
# Whether a finished loan was charged off is drawn from a logistic model of columns known at application, so that a
# classifier learns about as much as on the real rows. Everything else here follows from the outcome, as in
# the public file: whoever trains on these columns predicts what they were written from.

SNAPSHOT = month_number(2016, 1)
# Share of the loans of each year that are paid back or written off.
FINISHED = np.array((1.0, 1.0, 1.0, 0.97, 0.9, 0.85, 0.5, 0.31, 0.075))
TENANT, SMALL_BUSINESS, LONG_TERM = list(HOMES).index("RENT"), list(PURPOSES).index("small_business"), 1

# Of unfinished loans, and how many payments each lacks.
RUNNING = {
    "Current": (96.6, 0),
    "Late (31-120 days)": (1.85, 3),
    "In Grace Period": (1.0, 1),
    "Late (16-30 days)": (0.35, 1),
    "Default": (0.2, 6),
}
ISSUED_SINCE, ISSUED_SHARE = month_number(2015, 12), 0.25
POLICY_SINCE, OUTSIDE_POLICY_SHARE = month_number(2011, 1), 0.13
COLLECTION_FEE = 0.18


def draw_outcomes(table: Table, generator: np.random.Generator) -> Table:
    """The columns written after the loan was made, for the applications of ``table``."""
    rows = len(table["issue_d"])
    bad = happens(generator, rows, charge_off_probability(table))
    finished = happens(generator, rows, FINISHED[(table["issue_d"] - month_number(min(ISSUE_YEARS), 1)) // 12])
    status = draw_status(generator, table["issue_d"], bad, finished)
    paid = payments_made(generator, table, status, bad, finished)
    money = draw_money(generator, table, paid, bad, finished)
    dates = draw_dates(generator, table["issue_d"], paid, finished)
    return {"loan_status": status, "pymnt_plan": happens(generator, rows, 1e-5).astype(np.int64)} | money | dates


def charge_off_probability(table: Table) -> np.ndarray:
    """The chance of each loan to be charged off once it is finished; a missing value counts as a typical one."""
    # Round slopes, rate and income the largest, with which a logistic regression does about as well as on real loans.
    log_odds = (
        -1.98
        + 0.5 * (table["int_rate"] - 13) / 4.4
        - 0.6 * np.log(np.nan_to_num(table["annual_inc"], nan=65000) / 65000)
        + 0.1 * (table["dti"] - 18) / 8.3
        + 0.15 * (np.nan_to_num(table["revol_util"], nan=55) - 55) / 24
        + 0.13 * np.nan_to_num(table["inq_last_6mths"])
        + 0.37 * (table["term"] == LONG_TERM)
        + 0.12 * (table["home_ownership"] == TENANT)
        + 0.7 * (table["purpose"] == SMALL_BUSINESS)
    )
    return 1 / (1 + np.exp(-log_odds))


def draw_status(
    generator: np.random.Generator, issued: np.ndarray, bad: np.ndarray, finished: np.ndarray
) -> np.ndarray:
    """Codes into STATUSES."""
    rows = len(issued)
    running = np.array([STATUSES.index(name) for name in RUNNING])
    running = running[choose(generator, rows, [share for share, _ in RUNNING.values()])]
    just_issued = (issued >= ISSUED_SINCE) & happens(generator, rows, ISSUED_SHARE)
    outside = (issued < POLICY_SINCE) & happens(generator, rows, OUTSIDE_POLICY_SHARE)
    ended = bad + STATUSES.index(OUTSIDE_POLICY + FULLY_PAID) * outside
    return np.where(finished, ended, np.where(just_issued, STATUSES.index("Issued"), running))


def payments_made(
    generator: np.random.Generator, table: Table, status: np.ndarray, bad: np.ndarray, finished: np.ndarray
) -> np.ndarray:
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


def draw_money(
    generator: np.random.Generator, table: Table, paid: np.ndarray, bad: np.ndarray, finished: np.ndarray
) -> Table:
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


def draw_dates(generator: np.random.Generator, issued: np.ndarray, paid: np.ndarray, finished: np.ndarray) -> Table:
    rows = len(paid)
    last = issued + paid.astype(np.int64)
    pulled = np.where(finished, last + generator.integers(0, 12, rows), SNAPSHOT - happens(generator, rows, 0.15))
    return {
        "last_pymnt_d": shown(last, paid > 0),
        "next_pymnt_d": shown(SNAPSHOT + happens(generator, rows, 0.8), ~finished),
        "last_credit_pull_d": shown(np.minimum(pulled, SNAPSHOT), ~happens(generator, rows, 6e-5)),
    }


def balance_after(table: Table, payments: np.ndarray) -> np.ndarray:
    """Principal in dollars that is still owed after a number of payments on schedule."""
    growth = 1 + table["int_rate"] / 1200
    whole = growth ** months_of(table["term"])
    return np.round(table["funded_amnt"] * (whole - growth**payments) / (whole - 1), 2)
