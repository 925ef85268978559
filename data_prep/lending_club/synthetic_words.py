"""The free texts of the invented loans: employers' titles, loan titles, and what borrowers write about themselves.

They are put together from short lists, so that they are as long and nearly as varied as people's own, and a share has
the commas, quotation marks and line breaks that a reader of the file must survive.
"""
import pyarrow as pa
import pyarrow.compute as pc

from fate_dp.data_prep.lending_club.synthetic_draws import choose, happens
from fate_dp.data_prep.lending_club.synthetic_vocabulary import EMPLOYMENT, PURPOSES, month_number

RANKS = ("", "", "", "", "", "", "Senior ", "Lead ", "Assistant ", "Chief ", "Junior ", "Regional ", "Deputy ", "Head ")
TRADES = (
    "Teacher", "Manager", "Registered Nurse", "Driver", "Supervisor", "Sales", "Engineer", "Owner", "Accountant",
    "Office Manager", "Technician", "Electrician", "Project Manager", "Mechanic", "Clerk", "Police Officer", "Director",
    "Operator", "Foreman", "Paralegal", "Cashier", "Consultant", "Machinist", "Chef", "Carpenter", "Pharmacist",
    "Welder", "Bookkeeper", "Dispatcher", "Inspector", "Librarian", "Programmer", "Plumber", "Dental Hygienist",
)  # fmt: skip
# An employer's name has one part of each.
EMPLOYERS = (
    (
        "Al", "Bar", "Cor", "Dun", "El", "Fair", "Gar", "Hol", "Ing", "Jas", "Kel", "Lan", "Mar", "Nor", "Or", "Pen",
        "Quin", "Ros", "Sal", "Tor", "Ul", "Ver", "Wil", "Yar",
    ),
    ("a", "ber", "con", "den", "er", "fi", "gle", "hi", "in", "lo", "mer", "na", "o", "per", "ri", "sen", "ta", "ver"),
    (
        "burg", "by", "dale", "field", "ford", "ham", "ley", "mont", "ridge", "son", "stead", "ton", "ville", "well",
        "wick", "worth",
    ),
    (
        " Schools", " Hospital", " County", " Foods, Inc.", " Logistics", " Bank", " Insurance", " Motors",
        " University", " Clinic", " Energy", " Hardware", " Airlines", " & Sons", " Medical Group", ' "Express" Lines',
    ),
)  # fmt: skip
TRADE_SHARE, UNSTATED_EMPLOYER_SHARE = 0.65, 0.01

PLAIN_TITLES = {
    "debt_consolidation": "Debt consolidation", "credit_card": "Credit card refinancing",
    "home_improvement": "Home improvement", "other": "Other", "major_purchase": "Major purchase",
    "small_business": "Business", "car": "Car financing", "medical": "Medical expenses",
    "moving": "Moving and relocation", "vacation": "Vacation", "house": "Home buying", "wedding": "Wedding expenses",
    "renewable_energy": "Green loan", "educational": "Learning and training",
}  # fmt: skip
OWN_TITLES = (
    "Fresh start", "Pay it all down", "bills, bills, bills", "One payment", 'My "last" loan', "Getting ahead",
    "New roof", "card payoff", "CONSOLIDATE", "Lower rate", "Freedom", "Plan for next year", "engine + tires",
)  # fmt: skip
OWN_TITLE_SHARE, UNTITLED_SHARE = 0.12, 1.7e-4

DESCRIBED_UNTIL, DESCRIBED_SHARE = month_number(2014, 4), 0.46
SENTENCES = (
    "I would like to bring three balances together into one monthly payment.",
    "My income is steady, and I have not missed a payment in six years.",
    "The rate on my cards went up again, so most of what I pay is interest.",
    'This is for a used truck; the dealer calls it "almost new".',
    "We are replacing the roof before winter, then the two windows in front.",
    "I have worked for the same employer for a long time and enjoy what I do.",
    "After rent, food, gas and insurance I have about $700 left each month.",
    "Thank you for reading this, and for considering my request!",
    "A shorter plan with a fixed end date helps me more than a low minimum payment.",
    "The money goes to hospital bills (all of them), not to anything new.",
    "My wife and I share the household costs; she is paid every other week.",
    "I keep a budget, and I know exactly where the savings will come from.",
    "First I close the two store cards, next the one with the 24.9 % rate.",
    "The shop has grown every year, and a second oven would double what we can bake.",
)  # fmt: skip
LONGEST = 3
ADDRESS = "https://www.lendingclub.com/browse/loanDetail.action?loan_id="


def draw_texts(table, numbers, generator) -> dict:
    """emp_title, title, desc and url as pyarrow arrays of strings; ``numbers`` are the loans' ids."""
    return {
        "emp_title": employer_titles(generator, table["emp_length"]),
        "title": loan_titles(generator, table["purpose"]),
        "desc": descriptions(generator, table["issue_d"]),
        "url": joined(ADDRESS, pa.array(numbers).cast(pa.string())),
    }


def employer_titles(generator, employment):
    """A trade with or without a rank, or the employer's name, as borrowers fill the field in; none without a job."""
    rows = len(employment)
    trade = joined(picked(generator, rows, RANKS), picked(generator, rows, TRADES))
    name = joined(*(picked(generator, rows, parts) for parts in EMPLOYERS))
    title = pc.if_else(pa.array(happens(generator, rows, TRADE_SHARE)), trade, name)
    stated = (employment != list(EMPLOYMENT).index("n/a")) & ~happens(generator, rows, UNSTATED_EMPLOYER_SHARE)
    return where(stated, title)


def loan_titles(generator, purpose):
    rows = len(purpose)
    plain = pa.array([PLAIN_TITLES[name] for name in PURPOSES]).take(pa.array(purpose))
    own = pa.array(happens(generator, rows, OWN_TITLE_SHARE))
    title = pc.if_else(own, picked(generator, rows, OWN_TITLES), plain)
    return where(~happens(generator, rows, UNTITLED_SHARE), title)


def descriptions(generator, issued):
    """One to three sentences under the date on which they were added, on one line or on several."""
    rows = len(issued)
    described = (issued < DESCRIBED_UNTIL) & happens(generator, rows, DESCRIBED_SHARE)
    count = generator.integers(1, LONGEST + 1, rows)
    sentences = [where(count > place, picked(generator, rows, SENTENCES)) for place in range(LONGEST)]
    between = pa.array((" ", "<br>", "\n")).take(pa.array(choose(generator, rows, (70, 25, 5))))
    text = pc.binary_join_element_wise(*sentences, between, null_handling="skip")
    day = pa.array([f"{number:02}" for number in range(1, 29)]).take(pa.array(generator.integers(0, 28, rows)))
    month = pa.array([f"{1 + number % 12:02}/" for number in range(12)]).take(pa.array(issued % 12))
    year = pa.array([f"/{number % 100:02}" for number in range(1950, 2030)]).take(pa.array(issued // 12))
    return where(described, joined("  Borrower added on ", month, day, year, " > ", text, "<br>"))


def picked(generator, rows, texts):
    return pa.array(texts).take(pa.array(generator.integers(0, len(texts), rows)))


def joined(*parts):
    return pc.binary_join_element_wise(*parts, "")


def where(present, texts):
    return pc.if_else(pa.array(present), texts, pa.scalar(None, pa.string()))
