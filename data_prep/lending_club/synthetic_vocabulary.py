"""Categories of the invented loans with their shares in percent, round figures after the file's published marginals."""
from fate_dp.data_prep.lending_club.columns import OUTSIDE_POLICY

FIRST_YEAR = 1950
MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

EMPLOYMENT = {
    "< 1 year": 7.9, "1 year": 6.4, "2 years": 8.9, "3 years": 7.9, "4 years": 5.9, "5 years": 6.3, "6 years": 4.8,
    "7 years": 5.0, "8 years": 5.0, "9 years": 3.9, "10+ years": 33.0, "n/a": 5.0,
}  # fmt: skip
# In the order in which wealth falls.
HOMES = {"MORTGAGE": 49.97, "OWN": 9.9, "RENT": 40.1, "OTHER": 0.02, "NONE": 0.006, "ANY": 0.0004}
VERIFICATIONS = {"Source Verified": 37.1, "Verified": 32.8, "Not Verified": 30.1}
PURPOSES = {
    "debt_consolidation": 59.1, "credit_card": 23.2, "home_improvement": 5.8, "other": 4.8, "major_purchase": 1.9,
    "small_business": 1.2, "car": 1.0, "medical": 1.0, "moving": 0.6, "vacation": 0.5, "house": 0.4, "wedding": 0.3,
    "renewable_energy": 0.07, "educational": 0.05,
}  # fmt: skip
GRADES = {"A": 16.7, "B": 28.7, "C": 27.7, "D": 15.7, "E": 8.0, "F": 2.6, "G": 0.6}
SUB_GRADES = tuple(f"{grade}{step}" for grade in GRADES for step in range(1, 6))
ISSUE_YEARS = {
    2007: 0.07, 2008: 0.27, 2009: 0.6, 2010: 1.4, 2011: 2.45, 2012: 6.0, 2013: 15.2, 2014: 26.5, 2015: 47.5
}  # fmt: skip
# Share, and the first and the last three digits of the state's post codes.
STATES = {
    "CA": (14.6, 900, 961), "NY": (8.4, 100, 149), "TX": (8.0, 750, 799), "FL": (6.9, 320, 349), "IL": (4.0, 600, 629),
    "NJ": (3.8, 70, 89), "PA": (3.5, 150, 196), "OH": (3.3, 430, 458), "GA": (3.3, 300, 319), "VA": (3.0, 220, 246),
    "NC": (2.8, 270, 289), "MI": (2.6, 480, 499), "MD": (2.4, 206, 219), "MA": (2.3, 10, 27), "AZ": (2.3, 850, 865),
    "WA": (2.2, 980, 994), "CO": (2.1, 800, 816), "MN": (1.8, 550, 567), "MO": (1.6, 630, 658), "IN": (1.6, 460, 479),
    "CT": (1.5, 60, 69), "TN": (1.5, 370, 385), "NV": (1.4, 889, 898), "WI": (1.3, 530, 549), "AL": (1.3, 350, 369),
    "OR": (1.2, 970, 979), "SC": (1.2, 290, 299), "LA": (1.2, 700, 714), "KY": (1.0, 400, 427), "OK": (0.9, 730, 749),
    "KS": (0.9, 660, 679), "AR": (0.7, 716, 729), "UT": (0.7, 840, 847), "NM": (0.6, 870, 884), "HI": (0.5, 967, 968),
    "WV": (0.5, 247, 268), "NH": (0.5, 30, 38), "RI": (0.4, 28, 29), "MS": (0.4, 386, 397), "MT": (0.3, 590, 599),
    "DE": (0.3, 197, 199), "DC": (0.3, 200, 205), "AK": (0.25, 995, 999), "WY": (0.23, 820, 831),
    "SD": (0.2, 570, 577), "VT": (0.2, 50, 59), "NE": (0.1, 680, 693), "ME": (0.06, 39, 49), "ND": (0.05, 580, 588),
    "ID": (0.002, 832, 838), "IA": (0.002, 500, 528),
}  # fmt: skip

STATUSES = (
    "Fully Paid", "Charged Off", OUTSIDE_POLICY + "Fully Paid", OUTSIDE_POLICY + "Charged Off", "Current",
    "Late (31-120 days)", "In Grace Period", "Late (16-30 days)", "Default", "Issued",
)  # fmt: skip

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


def month_number(year, month):
    """Months since January 1950; ``month`` counts from 1."""
    return 12 * (year - FIRST_YEAR) + month - 1


def month_labels():
    """'Jan-1950', 'Feb-1950', ... : what month number 0, 1, ... looks like in the file."""
    return tuple(f"{name}-{year}" for year in range(FIRST_YEAR, FIRST_YEAR + 80) for name in MONTH_NAMES)
