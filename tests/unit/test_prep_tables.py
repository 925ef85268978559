"""What is said below the tables of a preparation."""

import pytest
from rich.console import Console

from fate_dp.pipelines.cli.data import print_preparation

MANIFEST = {
    "source": {"file": "loan.csv"},
    "steps": [{"name": "raw file read", "rows": 5, "columns": 74}],
    "dropped_columns": {},
    "label_values": {"Fully Paid": 1, "Charged Off": 0},
    "files": {},
    "notices": ["Something odd."],
    "record_privacy": "None.",
}
SHARE = "Share: what a party gets on average over seeds; under a skew it may be far more or less."
INFLUENCE = "Influence: the most synthetic loans that any one real loan went into."


@pytest.mark.parametrize(
    "skew, over_sampling, said, unsaid",
    [
        ("none", "none", [], [SHARE, INFLUENCE]),
        ("state", "none", [SHARE], [INFLUENCE]),
        ("none", "smote", [INFLUENCE], [SHARE]),
        ("label", "smotenc", [SHARE, INFLUENCE], []),
    ],
)
def test_headings_are_explained_where_they_matter(skew, over_sampling, said, unsaid, capsys):
    options = {"skew": skew, "over_sampling": over_sampling}
    print_preparation({**MANIFEST, "options": options}, Console(width=100))
    text = " ".join(capsys.readouterr().out.split())
    for sentence in (*said, *MANIFEST["notices"]):
        assert sentence in text
    assert not any(sentence in text for sentence in unsaid)


def test_a_narrow_terminal_shows_parties_and_counts(capsys):
    entry = {
        "role": "host",
        "party_id": "10000",
        "share": 0.25,
        "before": {"Fully Paid": 115354, "Charged Off": 21024},
        "after": {"Fully Paid": 115354, "Charged Off": 115354},
        "largest_influence": 1234,
        "rows": 230708,
        "columns": ["id"],
    }
    options = {"skew": "none", "over_sampling": "smotenc"}
    files = {"host_10000/train.csv": entry}
    print_preparation({**MANIFEST, "files": files, "options": options}, Console(width=80))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("host 10000   25 %" in line and line.split()[-1] == "1,234" for line in lines)
    assert any(line.split()[0] == "party" and line.split()[-1] == "influence" for line in lines if line.strip())
