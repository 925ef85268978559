"""The columns of Lending Club's public loan file: what each may be used for, and the study's features in order.

A model that decides on an application may use what is known when the application is decided, and nothing else. Most
columns of the file are written later (payments, recoveries, the last credit pull) and give the outcome away: with them
a model looks nearly perfect and is useless. The allow-list is frozen here; it is not derived from any data.
"""

ID, LABEL, STATE = "id", "loan_status", "addr_state"
FULLY_PAID, CHARGED_OFF = "Fully Paid", "Charged Off"
LABEL_VALUES = {FULLY_PAID: 1, CHARGED_OFF: 0}
OUTSIDE_POLICY = "Does not meet the credit policy. Status:"


def listed(text: str, between: str | None = None) -> tuple[str, ...]:
    """What stands in a list, with blanks or ``between`` between its entries."""
    return tuple(text.split(between))


# Of loans that are not settled, or were made under other rules.
OTHER_STATUSES = (
    *listed("Current|Issued|In Grace Period|Late (16-30 days)|Late (31-120 days)|Default", "|"),
    OUTSIDE_POLICY + FULLY_PAID,
    OUTSIDE_POLICY + CHARGED_OFF,
)


RAW_COLUMNS = listed(
    """
    id member_id loan_amnt funded_amnt funded_amnt_inv term int_rate installment grade sub_grade emp_title
    emp_length home_ownership annual_inc verification_status issue_d loan_status pymnt_plan url desc purpose title
    zip_code addr_state dti delinq_2yrs earliest_cr_line inq_last_6mths mths_since_last_delinq
    mths_since_last_record open_acc pub_rec revol_bal revol_util total_acc initial_list_status out_prncp
    out_prncp_inv total_pymnt total_pymnt_inv total_rec_prncp total_rec_int total_rec_late_fee recoveries
    collection_recovery_fee last_pymnt_d last_pymnt_amnt next_pymnt_d last_credit_pull_d collections_12_mths_ex_med
    mths_since_last_major_derog policy_code application_type annual_inc_joint dti_joint verification_status_joint
    acc_now_delinq tot_coll_amt tot_cur_bal open_acc_6m open_il_6m open_il_12m open_il_24m mths_since_rcnt_il
    total_bal_il il_util open_rv_12m open_rv_24m max_bal_bc all_util total_rev_hi_lim inq_fi total_cu_tl
    inq_last_12m
    """
)

# What the applicant states, what the credit file said at that moment, and the terms that were offered for the risk.
APPLICATION_TIME = frozenset(
    listed(
        """
        loan_amnt term int_rate installment grade sub_grade emp_title emp_length home_ownership annual_inc
        verification_status desc purpose title zip_code addr_state dti delinq_2yrs earliest_cr_line inq_last_6mths
        mths_since_last_delinq mths_since_last_record open_acc pub_rec revol_bal revol_util total_acc
        collections_12_mths_ex_med mths_since_last_major_derog application_type annual_inc_joint dti_joint
        verification_status_joint acc_now_delinq tot_coll_amt tot_cur_bal open_acc_6m open_il_6m open_il_12m open_il_24m
        mths_since_rcnt_il total_bal_il il_util open_rv_12m open_rv_24m max_bal_bc all_util total_rev_hi_lim inq_fi
        total_cu_tl inq_last_12m
        """
    )
)

# The source's 18, in the order of the file.
STUDY_COLUMNS = listed(
    """
    loan_amnt term int_rate installment emp_length home_ownership annual_inc verification_status loan_status purpose
    dti delinq_2yrs inq_last_6mths open_acc pub_rec revol_bal revol_util total_acc
    """
)

CATEGORIES = {
    "home_ownership": ("ANY", "MORTGAGE", "NONE", "OTHER", "OWN", "RENT"),
    "verification_status": ("Not Verified", "Source Verified", "Verified"),
    "purpose": listed(
        """
        car credit_card debt_consolidation educational home_improvement house major_purchase medical moving
        other renewable_energy small_business vacation wedding
        """
    ),
}

NUMERIC = tuple(column for column in STUDY_COLUMNS if column != LABEL and column not in CATEGORIES)
GROUPS = tuple(tuple(f"{column}_{category}" for category in categories) for column, categories in CATEGORIES.items())
FEATURES = NUMERIC + tuple(name for group in GROUPS for name in group)

# Limits, and centre and spread of a typical loan: round figures from the lender's published terms and statistics and from
# common sense, not from anybody's records. Every party can apply them without a message, a clip can be derived from the
# limits, and (value - centre) / spread is what a model trains on.
_PUBLIC = {
    "loan_amnt": ((0.0, 40000.0), (14000.0, 8000.0)),
    "term": ((36.0, 60.0), (42.0, 12.0)),
    "int_rate": ((5.0, 30.0), (13.0, 4.5)),
    "installment": ((0.0, 1500.0), (420.0, 250.0)),
    "emp_length": ((0.0, 10.0), (6.0, 4.0)),
    "annual_inc": ((0.0, 200000.0), (70000.0, 40000.0)),
    "dti": ((0.0, 40.0), (17.0, 8.0)),
    "delinq_2yrs": ((0.0, 4.0), (0.3, 1.0)),
    "inq_last_6mths": ((0.0, 6.0), (0.8, 1.0)),
    "open_acc": ((0.0, 30.0), (11.0, 5.0)),
    "pub_rec": ((0.0, 2.0), (0.2, 0.5)),
    "revol_bal": ((0.0, 60000.0), (16000.0, 15000.0)),
    "revol_util": ((0.0, 100.0), (54.0, 25.0)),
    "total_acc": ((0.0, 60.0), (25.0, 12.0)),
}
PUBLIC_LIMITS = {column: limits for column, (limits, _) in _PUBLIC.items()}
PUBLIC_UNITS = {column: units for column, (_, units) in _PUBLIC.items()}
