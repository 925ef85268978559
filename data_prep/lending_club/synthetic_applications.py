"""Invented loan applications: what the applicant states, what the credit file says, and the terms offered.

Every distribution is a round parametric one that imitates the published marginals of the public file (medians, spreads,
shares of categories, shares of missing values); none was fitted to a row. Three hidden normal factors tie the columns
together: wealth, appetite for credit, and quality of the credit history.

A table is a dict from column to a numpy array of length ``rows``: float64 with nan where a value is missing, int64
codes into `synthetic_vocabulary.CATEGORIES` or months since January 1950, both with -1 where a value is missing.
"""
import numpy as np

from fate_dp.data_prep.lending_club.synthetic_draws import blend, choose, choose_by, happens, shown
from fate_dp.data_prep.lending_club.synthetic_vocabulary import (
    EMPLOYMENT, GRADES, HOMES, ISSUE_YEARS, PURPOSES, STATES, SUB_GRADES, VERIFICATIONS, month_number,
)  # fmt: skip

STEPS = len(SUB_GRADES) // len(GRADES)
SUB_GRADE_SHARES = tuple(share for share in GRADES.values() for _ in range(STEPS))
# Percent a year by sub-grade A1 to G5, and what the lender added or took off in each year.
RATES = np.interp(
    np.arange(len(SUB_GRADES)), (0, 5, 10, 15, 20, 25, 30, 34), (5.9, 9.2, 12.6, 15.8, 18.7, 21.9, 25.2, 27.6)
)
RATE_STEPS = np.array((0.0, 0.6, 0.9, 0.5, 0.4, 0.9, 1.0, 0.0, -0.3))
LONG_TERM_SHARE = 0.3
SMALLEST_LOAN, LARGEST_LOAN = 500, 35000

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


def draw_applications(rows, generator) -> dict:
    """The columns known when an application is decided, and ``issue_d``; the free texts are drawn elsewhere."""
    wealth, appetite, quality = generator.standard_normal((3, rows))
    table = draw_applicant(generator, wealth)
    table |= draw_revolving_credit(generator, wealth, appetite, quality)
    table |= draw_past_trouble(generator, quality)
    table |= draw_terms(generator, wealth, appetite, quality)
    table |= draw_funding(generator, table)
    table |= draw_joint_application(generator, table)
    table |= draw_credit_details(generator, table["issue_d"])
    table["tot_cur_bal"] = total_balance(generator, table, wealth)
    for column in BALANCES:
        table[column] = shown(table[column], table["issue_d"] >= BALANCES_SINCE)
    for columns, share in GAPS.items():
        present = ~happens(generator, rows, share)
        table |= {column: shown(table[column], present) for column in columns}
    return table


def draw_applicant(generator, wealth):
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


def draw_revolving_credit(generator, wealth, appetite, quality):
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


def draw_past_trouble(generator, quality):
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


def draw_terms(generator, wealth, appetite, quality):
    """Amount, term, month of issue, grade and rate; who borrows for longer is graded as riskier."""
    rows = len(wealth)
    size = blend(generator, (0.5, wealth), (0.25, appetite))
    asked = np.clip(12200 * np.exp(0.65 * size), SMALLEST_LOAN, LARGEST_LOAN)
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


def draw_funding(generator, table):
    """What was lent of the amount asked for, mostly all of it, and the instalment that repays it."""
    amount, rows = table["loan_amnt"], len(table["loan_amnt"])
    cut_down = happens(generator, rows, 0.003) & (amount >= 2000)
    funded = np.where(cut_down, amount - 1000, amount)
    short = np.where(happens(generator, rows, 0.13), 25.0 * generator.integers(1, 9, rows), 0.0)
    return {
        "funded_amnt": funded,
        "funded_amnt_inv": funded - short,
        "installment": installment(funded, table["int_rate"], months_of(table["term"])),
        "initial_list_status": choose(generator, rows, (51.5, 48.5)),
        "policy_code": np.ones(rows),
    }


def draw_joint_application(generator, table):
    joint = (table["issue_d"] >= JOINT_SINCE) & happens(generator, len(table["issue_d"]), JOINT_SHARE)
    return {
        "application_type": joint.astype(np.int64),
        "annual_inc_joint": shown(np.round(1.6 * table["annual_inc"]), joint),
        "dti_joint": shown(np.round(0.8 * table["dti"], 2), joint),
        "verification_status_joint": shown(table["verification_status"], joint),
    }


def draw_credit_details(generator, issued):
    rows = len(issued)
    present = (issued >= DETAILS_SINCE) & happens(generator, rows, DETAILS_SHARE)
    borrower = present & happens(generator, rows, 0.97)
    means = {
        "open_acc_6m": 1.1, "open_il_6m": 2.9, "open_il_12m": 0.8, "open_il_24m": 1.7, "open_rv_12m": 1.4,
        "open_rv_24m": 3.0, "inq_fi": 0.9, "total_cu_tl": 1.5, "inq_last_12m": 2.0,
    }  # fmt: skip
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


def total_balance(generator, table, wealth):
    owed = np.where(table["home_ownership"] == list(HOMES).index("MORTGAGE"), 200000, 35000)
    return np.floor(owed * np.exp(0.8 * blend(generator, (0.4, wealth))))


def installment(amount, rate, months):
    """Dollars a month, to the cent, that repay ``amount`` in ``months`` equal parts at ``rate`` percent a year."""
    monthly = rate / 1200
    return np.round(amount * monthly / (1 - (1 + monthly) ** -months), 2)


def months_of(term):
    """36.0 or 60.0 for the codes of ``term``."""
    return np.where(term == 1, 60.0, 36.0)
