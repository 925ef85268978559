"""What is said below the tables of a preparation."""
import pytest
from fate_dp.pipelines.prep_tables import print_preparation
from rich.console import Console

MANIFEST = {
    "source": {"file": "loan.csv"}, "steps": [{"name": "raw file read", "rows": 5, "columns": 74}],
    "dropped_columns": {}, "label_values": {"Fully Paid": 1, "Charged Off": 0}, "files": {},
    "notices": ["Something odd."], "record_privacy": "None.",
}
SHARE = "Share: what a party gets on average over seeds; under a skew it may be far more or less."
INFLUENCE = "Influence: the most synthetic loans that any one real loan went into."


@pytest.mark.parametrize("skew, over_sampling, said, unsaid", [
    ("none", "none", [], [SHARE, INFLUENCE]), ("state", "none", [SHARE], [INFLUENCE]),
    ("none", "smote", [INFLUENCE], [SHARE]), ("label", "smotenc", [SHARE, INFLUENCE], []),
])
def test_headings_are_explained_where_they_matter(skew, over_sampling, said, unsaid, capsys):
    options = {"skew": skew, "over_sampling": over_sampling}
    print_preparation({**MANIFEST, "options": options}, Console(width=100))
    text = " ".join(capsys.readouterr().out.split())
    for sentence in (*said, *MANIFEST["notices"]):
        assert sentence in text
    assert not any(sentence in text for sentence in unsaid)
