"""The operator's policy file."""

import multiprocessing
import stat
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fate_dp.privacy import InvalidPolicy
from fate_dp.privacy.ledger.entries import BudgetCap
from fate_dp.privacy.ledger.policy import (
    Policy,
    SourcePolicy,
    check_source,
    declare_caps,
    declare_facts,
    declare_source,
    load_policy,
    unused_names,
)
from fate_dp.privacy.table_facts import TableFacts

SOURCE = "experiment/breast_guest/y"
FULL = """
default_label_cap: 6
label_sources:
  experiment/breast_guest/y: {cap: 4.5}
  experiment/breast_public/y: {public: true}
score_caps:
  experiment/breast_host: 3
default_dataset_cap: {epsilon: 4, delta: 1e-7}
dataset_caps:
  bank/loans: {epsilon: 3, delta: 1e-6}
  bank/others: {epsilon: 1.5}
  bank/tight: {delta: 0}
foreign_jobs: [upload, engine_run]
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "home" / "policy.yaml"


def write(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("text", [None, "", "label_sources:\n"])
def test_missing_or_empty_file_means_defaults(path, text):
    if text is not None:
        write(path, text)
    policy = load_policy(path)
    assert policy == Policy() and policy.label_cap(SOURCE) == 8.0 and not policy.source(SOURCE).public
    assert [policy.score_cap("experiment/host", count) for count in (20, 7, 3)] == [5, 1, 0]


def test_full_file(path):
    write(path, FULL)
    policy = load_policy(path)
    assert policy.label_cap(SOURCE) == 4.5 and not policy.source(SOURCE).public
    assert policy.label_cap("experiment/breast_public/y") == 6.0 and policy.source("experiment/breast_public/y").public
    assert policy.score_cap("experiment/breast_host", 100) == 3
    assert policy.foreign_jobs == {"upload", "engine_run"}
    datasets = ("bank/loans", "bank/others", "bank/tight", "bank/unnamed")
    expected = [BudgetCap(3, 1e-6), BudgetCap(1.5, 1e-7), BudgetCap(4, 0), BudgetCap(4, 1e-7)]
    assert [policy.dataset_cap(dataset) for dataset in datasets] == expected


def test_example_file_is_valid():
    example = Path(__file__).parents[2] / "conf" / "policy.example.yaml"
    policy = load_policy(example)
    assert policy.dataset_cap("columns:0123456789abcdef") == BudgetCap(3.0, 1e-6) and unused_names(policy) == []
    assert policy.populations_of(["clinic/wards"]) == {"wards"} and policy.job_check == "refuse"
    assert policy.default_dataset_cap == Policy().default_dataset_cap and policy.default_label_cap == 8.0


@pytest.mark.parametrize("text, delta", [("1e-6", 1e-6), ("1E-06", 1e-6), ("1.0e-6", 1e-6), ("0", 0.0), ("0.01", 0.01)])
def test_delta_may_be_written_without_a_point(path, text, delta):
    """YAML 1.1 takes 1e-6 for text, which nobody expects who writes a delta."""
    write(path, f"default_dataset_cap: {{delta: {text}}}")
    assert load_policy(path).dataset_cap("a/b") == BudgetCap(8.0, delta)


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("cap: 3", "a key of the file must be one of "),
        ("label_sources: {a/b/c: {epsilon: 3}}", "a key of a/b/c must be one of cap, "),
        ("label_sources: [a/b/c]", "must be a mapping"),
        ("label_sources: {a/b/c: 3}", "must be a mapping"),
        ("label_sources: {a/b: {cap: 3}}", "must be namespace/name/column"),
        ("label_sources: {a/b/c: {public: 1}}", "must be true or false"),
        ("label_sources: {a/b/c: {columns: age}}", "columns of a/b/c must be a list, got 'age'"),
        ("label_sources: {a/b/c: {columns: [1]}}", "must be a list of texts"),
        ("label_sources: {a/b/c: {records: 0}}", "records of a/b/c must be a whole number from 1 on, got 0"),
        ("label_sources: {a/b/c: {records: many}}", "must be a whole number from 1 on"),
        ("label_sources: {a/b/c: {cap: -1}}", "finite number greater than 0"),
        ("default_label_cap: .inf", "finite number greater than 0"),
        ("default_label_cap: true", "finite number greater than 0"),
        ("default_label_cap: '8'", "finite number greater than 0"),
        ("default_label_cap: null", "finite number greater than 0"),
        ("tables: [a/b]", "tables must be a mapping, got ['a/b']"),
        ("tables: {a/b: {population: ''}}", "must be a text of one line that is not empty, got ''"),
        ("tables: {7: {population: shops}}", "must be non-empty text, got 7"),
        ("dataset_caps: [a/b]", "dataset_caps must be a mapping, got ['a/b']."),
        ("dataset_caps: {a/b: 3}", "the cap of a/b must be a mapping, got 3."),
        ("dataset_caps: {a/b: {cap: 3}}", "a key of the cap of a/b must be one of epsilon, delta, got 'cap'."),
        ("dataset_caps: {a/b: {epsilon: 0}}", "the cap of a/b is not valid: epsilon must be a finite number"),
        ("dataset_caps: {a/b: {epsilon: .inf}}", "epsilon must be a finite number greater than 0 (in nats), got inf"),
        ("dataset_caps: {a/b: {epsilon: '3'}}", "epsilon must be a finite number greater than 0 (in nats), got '3'"),
        ("dataset_caps: {a/b: {delta: 1}}", "delta must be a number of at least 0 and less than 1, got 1"),
        ("dataset_caps: {a/b: {delta: '1e-6'}}", "delta must be a number of at least 0 and less than 1, got '1e-6'"),
        ("dataset_caps: {a/b: {delta: null}}", "delta must be a number of at least 0 and less than 1, got None"),
        ("dataset_caps: {3: {epsilon: 1}}", "each dataset of dataset_caps must be non-empty text, got 3."),
        ("default_dataset_cap: {epsilon: true}", "default_dataset_cap is not valid: epsilon must be"),
        ("score_caps: {a: 1.5}", "whole number from 0 on"),
        ("score_caps: {a: -1}", "whole number from 0 on"),
        ("score_caps: {3: 1}", "non-empty text"),
        ("foreign_jobs: upload", "foreign_jobs must be a list, got 'upload'"),
        ("foreign_jobs: [true]", "must be non-empty text, got True."),
        ("job_check: maybe", "job_check must be one of refuse, warn, off, got 'maybe'"),
        ("job_check: true", "job_check must be one of refuse, warn, off, got True"),
        ("- 3", "must be a mapping"),
        ("a: [", "not valid YAML"),
    ],
)
def test_malformed_file_is_refused_in_one_sentence(path, text, complaint):
    write(path, text)
    with pytest.raises(InvalidPolicy) as caught:
        load_policy(path)
    assert complaint in str(caught.value) and "\n" not in str(caught.value)


def test_a_job_that_leaks_is_refused_unless_the_operator_says_otherwise(path):
    assert load_policy(path).job_check == "refuse"
    for text, word in (("warn", "warn"), ("off", "off"), ("'off'", "off"), ("refuse", "refuse")):
        write(path, f"job_check: {text}\ndefault_label_cap: 3.0")
        assert load_policy(path).job_check == word


@pytest.mark.parametrize("source", ["", "a", "a/b", "a/b/", "/b/c", "a//c", "a/b/c/d", "a/ /c", None, 3])
def test_malformed_source_is_refused(source):
    with pytest.raises(InvalidPolicy, match="must be namespace/name/column, got"):
        check_source(source)


def test_declarations_add_up(path):
    declare_source(path, SOURCE, cap=4)
    declare_source(path, SOURCE, public=True)
    declare_source(path, "a/b/c", public=False)
    policy = load_policy(path)
    assert policy.label_sources == {SOURCE: SourcePolicy(4.0, True), "a/b/c": SourcePolicy(None, False)}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    declare_source(path, SOURCE, public=False)
    assert not load_policy(path).source(SOURCE).public and load_policy(path).label_cap(SOURCE) == 4.0


def test_declaration_keeps_the_rest_of_the_file(path):
    write(path, FULL)
    declare_source(path, "a/b/c", cap=1)
    policy = load_policy(path)
    assert policy.default_label_cap == 6.0 and policy.score_caps == {"experiment/breast_host": 3}
    assert policy.default_dataset_cap == BudgetCap(4, 1e-7) and len(policy.dataset_caps) == 3
    assert len(policy.label_sources) == 3


@pytest.mark.parametrize("arguments", [{"cap": -1}, {"cap": "4"}, {"public": "yes"}])
def test_refused_declaration_leaves_the_file(path, arguments):
    write(path, FULL)
    with pytest.raises(InvalidPolicy):
        declare_source(path, SOURCE, **arguments)
    assert path.read_text() == FULL


def test_declarations_at_once_are_all_kept(path):
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=declare_source, args=(path, f"a/b/{i}"), kwargs={"cap": 1}) for i in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert len(load_policy(path).label_sources) == 8


def test_policy_is_frozen():
    with pytest.raises(AttributeError):
        Policy().default_label_cap = 100


def test_a_source_can_be_tied_to_the_columns_and_the_records_of_its_table(path):
    declare_source(path, SOURCE, cap=2, columns=["b", "a"], records=30)
    declare_source(path, SOURCE, cap=3)
    policy = load_policy(path)
    assert (
        policy.source(SOURCE).columns == {"a", "b"}
        and policy.source(SOURCE).records == 30
        and policy.label_cap(SOURCE) == 3
    )
    declare_source(path, "a/b/c")
    assert load_policy(path).source("a/b/c").columns is load_policy(path).source("a/b/c").records is None


COLUMNS, PART = "columns:0123456789abcdef", "columns:fedcba9876543210"
CAPS = """
default_dataset_cap: {epsilon: 6, delta: 1.0e-6}
dataset_caps: {"columns:0123456789abcdef": {epsilon: 1, delta: 1.0e-5}, bank/loans_2024: {epsilon: 3},
               "columns:1111111111111111": {epsilon: 7, delta: 1.0e-9}}
score_caps: {"columns:0123456789abcdef": 1, "weights of columns:0123456789abcdef": 2, bank/loans: 5}
loss_caps: {"columns:0123456789abcdef": 2}
"""


def test_the_smallest_cap_of_all_related_datasets_holds(path):
    write(path, CAPS)
    policy = load_policy(path)
    assert policy.dataset_cap(PART) == BudgetCap(6, 1e-6)
    assert (
        policy.dataset_cap(PART, (COLUMNS, PART))
        == policy.dataset_cap(f"{PART}#2", (f"{COLUMNS}#3",))
        == BudgetCap(1, 1e-6)
    )
    assert policy.dataset_cap(PART, ("columns:1111111111111111",)) == BudgetCap(6, 1e-9)
    assert policy.dataset_cap(COLUMNS, (COLUMNS,)) == BudgetCap(1, 1e-5)
    assert policy.dataset_cap(COLUMNS, (COLUMNS, PART)) == policy.dataset_cap(f"{COLUMNS}#2") == BudgetCap(1, 1e-6)
    assert [policy.score_cap(COLUMNS, 40), policy.score_cap(PART, 40), policy.score_cap(PART, 40, (COLUMNS,))] == [
        1,
        10,
        1,
    ]
    assert policy.score_cap(PART, 3, (COLUMNS,)) == 0
    assert (policy.loss_cap(PART), policy.loss_cap(COLUMNS), policy.loss_cap(PART, (COLUMNS,))) == (40, 2, 2)


def test_a_part_of_a_table_finds_no_larger_cap_under_the_name_of_another_table(path):
    """A job that leaves columns away can give a private table the columns, and so the name, of one with a large cap."""
    write(
        path,
        """
dataset_caps: {"columns:fedcba9876543210": {epsilon: 100}}
score_caps: {"columns:fedcba9876543210": 50, "weights of columns:fedcba9876543210": 50}
few_valued_scores: ["columns:fedcba9876543210"]
""",
    )
    policy = load_policy(path)
    assert policy.dataset_cap(PART, (PART,)).epsilon == 100 and policy.score_cap(PART, 12, (PART,)) == 50
    # Numbered, since its records are others than those of the table with the cap; or related to the whole table.
    for name, related in ((f"{PART}#2", ()), (f"{PART}#2", (COLUMNS, f"{PART}#2")), (PART, (COLUMNS, PART))):
        assert policy.dataset_cap(name, related).epsilon == 8.0 and policy.score_cap(name, 12, related) == 3
    # Weights are known by columns alone.
    assert policy.score_cap(f"weights of {PART}", 12, (f"weights of {COLUMNS}",)) == 50
    assert policy.score_cap(f"weights of {COLUMNS}", 12, (f"weights of {PART}",)) == 3
    assert policy.consents_to_few_values(PART) and policy.consents_to_few_values(f"{PART}#2")
    assert not policy.consents_to_few_values(PART, (COLUMNS, PART))


def test_names_that_nothing_uses_are_told(path, caplog):
    write(path, CAPS)
    assert unused_names(load_policy(path)) == [("score_caps", "bank/loans"), ("dataset_caps", "bank/loans_2024")]
    load_policy(path)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2 and f"In {path}, dataset_caps names 'bank/loans_2024', but no component" in told[1]


def test_a_file_with_a_retired_key_stays_valid_and_says_so(path, caplog):
    write(path, "default_label_cap: 5\npublic_datasets: [bank/published]\nrecord_calls: true\nseparate_ids: [row]\n")
    assert load_policy(path) == Policy(default_label_cap=5)
    for key in ("public_datasets", "record_calls", "separate_ids"):
        assert f"{key} holds nothing any more; remove it" in caplog.text
    declare_source(path, "a/b/c", cap=1)
    assert load_policy(path).label_cap("a/b/c") == 1


def test_ids_name_whom_the_policy_says_and_those_of_an_undeclared_table_anybody(path):
    write(path, "tables: {bank/loans: {population: people}}\n")
    declare_facts(path, "bank/wares", TableFacts("bank/wares"))
    policy, anybody = load_policy(path), {"records", "people", "bank/wares"}
    assert policy.populations_of(["bank/loans"]) == {"people"}
    assert policy.populations_of(["bank/loans", "bank/wares"]) == {"people", "bank/wares"}
    assert [policy.populations_of(tables) for tables in (None, [], ["bank/loans", "x/y"])] == [anybody] * 3
    assert Policy().populations_of(["bank/loans"]) == {"records"}


def test_what_is_known_of_a_table_is_kept_as_it_was_said(path):
    facts = TableFacts(
        "people", {"rate": "percent"}, {"age": (18, 100)}, {"region": ("north", "south")}, {"age": (-999, -1)}, ("-9",)
    )
    declare_facts(path, "bank/loans", facts)
    declare_facts(path, "bank/loans", TableFacts("people", features=("age", "rate")))
    declare_facts(path, "bank/wares", TableFacts(special={"age": (-999, -7)}))
    assert load_policy(path).tables["bank/loans"] == replace(facts, features=("age", "rate"))
    assert load_policy(path).special_values_of(["bank/loans", "bank/wares"]) == {"age": (-999, -7, -1)}
    assert load_policy(path).special_values_of(None) == {}


NUMBERS_AS_TEXTS = [
    "1e5",
    "1E+05",
    "-2e3",
    "12.e03",
    "1.5e-3",
    "+1e5",
    ".5",
    "5.",
    "1_000",
    "010",
    "0o7",
    "0x1F",
    "1:30",
    "-1",
    ".inf",
    ".nan",
]
OTHER_TEXTS = [
    "yes",
    "Off",
    "n",
    "~",
    "null",
    "2024-01-01",
    "<<",
    "=",
    "- a",
    "a: b",
    "#a",
    "'a",
    '"',
    "{",
    "*a",
    "!a",
    "%a",
    "银行",
    "é",
]


@pytest.mark.parametrize("text", [*NUMBERS_AS_TEXTS, *OTHER_TEXTS])
def test_a_text_of_an_operator_is_read_as_it_was_declared(path, text):
    facts = TableFacts(text, units={text: text}, categories={text: (text, "other")}, missing=(text,), features=(text,))
    declare_facts(path, f"bank/{text}", facts)
    declare_source(path, f"bank/loans/{text}", columns=[text], cap=1e-6)
    policy = load_policy(path)
    assert policy.tables == {f"bank/{text}": facts} and policy.source(f"bank/loans/{text}").columns == {text}


def test_whatever_numbers_a_program_gives_are_written_as_plain_ones(path):
    declare_source(path, "银行/贷 款/y", cap=np.float64(2), records=np.int64(1000))
    declare_caps(path, "columns:0123456789abcdef", epsilon=Fraction(1, 2), scores=np.int64(3))
    policy = load_policy(path)
    assert policy.source("银行/贷 款/y") == SourcePolicy(2.0, records=1000) and "银行/贷 款/y" in path.read_text(
        "utf-8"
    )
    assert policy.dataset_cap("columns:0123456789abcdef").epsilon == 0.5


@pytest.mark.parametrize("source", [" a/b/c", "a/b/c ", "a/b\t/c\n", "a/\u3000b/c"])
def test_a_name_with_blanks_at_its_ends_is_not_declared(path, source):
    with pytest.raises(InvalidPolicy, match="without blanks at their ends"):
        declare_source(path, source)


@pytest.mark.parametrize(
    "written, sentence",
    [
        ("population: ' '", "population must be a text of one line"),
        ("special: {age: []}", "special of 'age' must be a list of at least one number"),
        ("special: {age: ['-1']}", "special of 'age' must be a list of finite numbers"),
        ("special: {age: [true]}", "special of 'age' must be a list of finite numbers"),
        ("special: {age: [.nan]}", "special of 'age' must be a list of finite numbers"),
        ("ranges: {age: [18]}", "range of 'age' must be two finite numbers"),
        ("ranges: {age: [100, 18]}", "range of 'age' must be two finite numbers"),
        ("ranges: {age: [1, .inf]}", "range of 'age' must be two finite numbers"),
        ("ranges: [age]", "ranges must be a mapping from names of columns"),
        ("categories: {region: [north, north]}", "categories of 'region' must be a list of different texts"),
        ("missing: -9", "missing must be a list of different texts"),
        ("units: {rate: 5}", "unit of 'rate' must be a text of one line"),
        ("{special: {age: [1]}, categories: {age: [a]}}", "codes of 'age' must be special or categories"),
        ("specials: {age: [1]}", "a key of bank/loans must be one of population, units"),
        ("[population]", "bank/loans must be a mapping"),
    ],
)
def test_what_cannot_be_known_of_a_table_is_refused_in_one_sentence(path, written, sentence):
    write(path, f"tables:\n  bank/loans:\n    {written}\n")
    with pytest.raises(InvalidPolicy, match=sentence) as refused:
        load_policy(path)
    assert "\n" not in str(refused.value)


def test_caps_of_a_table_are_declared_by_its_columns(path):
    declare_caps(path, COLUMNS, epsilon=3.0, scores=2, losses=7)
    declare_caps(path, COLUMNS, delta=1e-7)
    policy = load_policy(path)
    assert policy.dataset_cap(COLUMNS) == BudgetCap(3.0, 1e-7) and policy.score_cap(COLUMNS, 40) == 2
    assert policy.loss_cap(COLUMNS) == 7
    before = path.read_bytes()
    for wrong in ({"epsilon": -1.0}, {"delta": 2.0}, {"scores": -1}, {"losses": -1}):
        with pytest.raises(InvalidPolicy):
            declare_caps(path, COLUMNS, **wrong)
    assert path.read_bytes() == before
