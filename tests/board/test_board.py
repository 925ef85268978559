"""FATE-Board before finished jobs of every component: what a person sees of them, page by page, with a screenshot of each."""

import threading
import time

import pytest

from fate_dp.pipelines.jobs.job import run_job
from tests.end_to_end.loans import PARTIES, flipped_pipeline, loans

from .jobs import SUCCESSFUL, drawn, walked

GUEST, HOST = ("guest", PARTIES.guest), ("host", PARTIES.host)
GRAPHS = {name: drawn(make) for name, make in SUCCESSFUL.items()}
TASKS = walked()
FIRST_TABS = ("summary", "model", "metrics")
# Trainings that show the guest their loss; that of dp_homo_nn would be one more release of every round.
LOSSES = ("dp_hetero_lr_0", "share_lr_0")
LABELLED = ("label_flip_0", "dp_hetero_lr_0", "smote_0")
# The board's own: a log's connection that a page leaves behind, a graph that is drawn anew while it moves, and a list of
# log lines that is drawn before they have all come.
OF_THE_BOARD = ("WebSocket", "transition not found", "reading 'lineNum'")
# Tasks whose output is a model or a document, and no table.
WITHOUT_TABLE = ("share_lr_0", "dp_scorecard_0", "label_count_0", "shuffler_0")
CURVES = ("ROC", "K-S", "Gain", "Lift", "Precision Recall", "Accuracy")


@pytest.fixture(scope="session")
def signed_in(walk):
    password = walk.board.password_file.read_text().strip()
    walk.sign_in("not the password")
    walk.browser.wait(lambda: "password" in walk.browser.text().lower(), "says nothing of a wrong password")
    walk.shot("01-wrong-password")
    walk.sign_in(password)
    walk.browser.element(".f-layout-header, header, nav", None)
    walk.browser.wait(lambda: "JOBS" in walk.browser.text(), "does not let the user in")
    return walk


@pytest.fixture(scope="session")
def chosen(signed_in, jobs):
    """A function that opens a task's job at a party and its outputs; returns its parameters and its tabs."""

    def choose(task, job=None, party=GUEST):
        signed_in.job(jobs[job or TASKS[task][0]]["id"], *party)
        parameters = signed_in.choose(task, task.rpartition("_")[0])
        return parameters, signed_in.outputs()

    return choose


def test_a_wrong_password_does_not_open_the_board(signed_in, see):
    see("RUNNING" in signed_in.browser.text(), "the right password opens the board, after a wrong one did not")


def test_a_running_job_has_a_card_and_a_dashboard(signed_in, jobs, flow, home, see):
    """The same flips once more cost nothing."""
    pipeline, ended = flipped_pipeline()[0], []
    work = threading.Thread(target=lambda: ended.append(run_job(pipeline, flow, home=home)))
    work.start()
    try:
        browser = signed_in.browser
        signed_in.page("running")
        browser.wait(lambda: "Job: " in browser.text(), "shows no running job", 120)
        job = browser.texts(".running-list-container .f-header-job")[0].removeprefix("Job: ").strip()
        see(job.isdigit() and job not in {each["id"] for each in jobs.values()}, "the card names the job")
        see("%" in browser.text() or "waiting" in browser.text(), "the card shows how far the job is")
        signed_in.shot("02-running")
        signed_in.job(job, *GUEST, page="dashboard")
        text = browser.text()
        see(set(signed_in.tasks()) == {"reader_0", "psi_0", "label_flip_0"}, "the dashboard draws the graph")
        see("loans.guest" in text and "loans.host" in text, "the dashboard names both parties' tables")
        signed_in.shot("03-dashboard-running")
    finally:
        work.join()
    see(ended, "the job that was watched ended well")
    signed_in.job(job, *GUEST, page="dashboard")
    browser.wait(lambda: "success" in browser.text(), "does not say how the job ended")
    signed_in.shot("04-dashboard-ended")


def test_the_list_has_every_job_with_its_status(signed_in, jobs, see):
    signed_in.page("history")
    signed_in.browser.element(".f-history-table tbody tr")
    signed_in.shot("05-jobs")
    status = signed_in.history()
    for name, job in jobs.items():
        expected = "success" if name in SUCCESSFUL else "failed"
        see(status.get(job["id"]) == expected, f"the job {name} is listed as {expected}")


@pytest.mark.parametrize("name", SUCCESSFUL)
def test_the_graph_of_a_ready_pipeline_has_every_task_and_arrow(signed_in, jobs, name, see):
    signed_in.job(jobs[name]["id"], *GUEST)
    tasks, arrows = set(GRAPHS[name].components), GRAPHS[name].arrows
    see(set(signed_in.tasks()) == tasks, f"the graph of {name} has the tasks {sorted(tasks)}")
    see(signed_in.arrows() == arrows, f"the graph of {name} has {arrows} arrows, not {signed_in.arrows()}")
    see("success" in signed_in.browser.text(".f-summary-list"), "the summary says how the job ended")
    time.sleep(1)
    signed_in.shot(f"06-graph-{name}")


@pytest.mark.parametrize("task", TASKS)
def test_a_task_shows_its_parameters_its_summary_and_its_log(chosen, signed_in, task, see):
    _, parameter = TASKS[task]
    parameters, tabs = chosen(task)
    see(parameter in parameters, f"{parameter!r} among the parameters of {task}: {parameters!r}")
    see(tabs[0] in FIRST_TABS and tabs[1:] == ["data", "log"], f"{task} has a summary, data and log, not {tabs}")
    signed_in.await_facts()
    signed_in.shot(f"07-summary-{task}")
    see(not signed_in.cut(), f"the names above the table of {task} are whole, also {signed_in.cut()}")
    facts = signed_in.facts()
    told = any(word in name for name in facts for word in ("epsilon", "mechanism", "split"))
    see(told, f"epsilon, mechanism or split in the summary of {task}: {list(facts)}")
    see(any("rows" in name or "records" in name for name in facts), f"rows in the summary of {task}: {list(facts)}")
    cut = [name for name, value in facts.items() if value in ("", "-", "[object Object]", "0.000000")]
    see(not cut, f"{task} shows a value of every fact, also of {cut}")
    signed_in.tab("log")
    signed_in.browser.wait(lambda: "summary: " in signed_in.pane(), f"shows no log of {task}'s own")
    signed_in.shot(f"08-log-{task}")
    see("Traceback" not in signed_in.pane(), f"the log of {task} has no traceback")


@pytest.mark.parametrize("task", LOSSES)
def test_a_training_draws_its_loss(chosen, signed_in, task, see):
    chosen(task)
    see("Loss" in signed_in.pane(), f"{task} has a chart of its loss")
    see(signed_in.coloured(".f-line-chart canvas") > 100, f"the chart of {task} has a line")
    time.sleep(1)
    signed_in.shot(f"09-loss-{task}")


def test_a_host_sees_its_own_side(signed_in, jobs, see):
    signed_in.job(jobs["vertical"]["id"], *HOST)
    see(
        "smote_0" not in signed_in.tasks() and "label_flip_0" in signed_in.tasks(),
        "the host's graph has its tasks only",
    )
    signed_in.choose("dp_hetero_lr_0", "dp_hetero_lr")
    signed_in.outputs()
    facts = signed_in.facts()
    see(any("privacy" in name for name in facts), f"the host reads what protects it: {list(facts)}")
    see("Loss" not in signed_in.pane(), "the host has no loss")
    signed_in.shot("10-host")


@pytest.mark.parametrize("task", LABELLED)
def test_the_data_tab_has_rows_and_no_true_labels(chosen, signed_in, task, see):
    chosen(task)
    signed_in.tab("data")
    rows = signed_in.table()
    signed_in.shot(f"11-data-{task}")
    truth = loans(131, seed=8)[0].set_index("id")["y"]
    label = "label" if "label" in rows[0] else "y"
    known = [(row[label], truth[row["id"]]) for row in rows if row["id"] in truth.index]
    see(len(known) >= 50, f"{task} shows rows of the guest's table, {len(known)}")
    wrong = sum(float(shown) != true for shown, true in known)
    see(0.1 < wrong / len(known) < 0.5, f"{wrong} of {len(known)} labels of {task} are flipped, as at epsilon 1")


def test_the_data_tab_of_an_alignment_has_shares_and_no_records(chosen, signed_in, see):
    chosen("align_0")
    signed_in.tab("data")
    rows = signed_in.table()
    signed_in.shot("11-data-align_0")
    guest = loans(131, seed=8)[0]
    see(not {row["id"] for row in rows} & set(guest["id"]), "no id of a record stands beside its shares")
    see(not set(rows[0]) & set(guest.columns[1:]), f"no column holds a feature or a label in clear: {list(rows[0])}")
    shares = [abs(int(row["guest_x0.high"])) for row in rows]
    see(sum(shares) / len(shares) > 1e6, "the shares are large whatever they share")


@pytest.mark.parametrize("task", WITHOUT_TABLE)
def test_a_task_without_a_table_shows_none(chosen, signed_in, task, see):
    chosen(task)
    signed_in.tab("data")
    see(not (names := signed_in.columns()), f"{task} shows no table: {names}")
    signed_in.shot(f"11-data-{task}")


def test_a_host_sees_no_label(chosen, signed_in, see):
    chosen("label_flip_0", party=HOST)
    signed_in.tab("data")
    names = set(signed_in.columns())
    own = set(loans(131, seed=8)[1].columns)
    see(own <= names, f"the host sees its own columns, {sorted(names)}")
    see(not names & {"y", "label", "x0"}, "the host sees neither the label nor the guest's features")
    signed_in.shot("11-data-host")


@pytest.mark.parametrize("job", ["vertical", "horizontal"])
def test_the_evaluation_draws_scores_confusion_and_curves(chosen, signed_in, job, see):
    _, tabs = chosen("evaluation_0", job)
    see(tabs[0] == "metrics", "the first tab of an evaluation is called metrics")
    browser = signed_in.browser
    browser.wait(lambda: "Evaluation Scores" in signed_in.pane(), "shows no scores")
    signed_in.shot(f"12-evaluation-{job}")
    text = signed_in.pane()
    for word in ("auc", "ks", "precision", "recall", "Confusion Matrix", "F1-score"):
        see(word in text, f"the evaluation of {job} shows {word}")
    charts = f"{'.f-output-dialog'} .f-tabs-container .el-tabs__item"
    names = browser.texts(charts)
    see(set(CURVES) <= set(names), f"the evaluation of {job} has the curves {CURVES}, not {names}")
    for name in CURVES:
        browser.click(charts, name)
        # A chart that is still built shrinks the page, which then stands elsewhere than where it was scrolled to.
        time.sleep(1)
        drawn = signed_in.coloured(".f-tab-chart canvas")
        see(drawn > 100, f"the curve {name} of {job} is drawn")
        signed_in.shot(f"13-curve-{job}-{name.replace(' ', '-')}")


@pytest.mark.parametrize("name", ["refused", "failed"])
def test_a_job_that_did_not_run_says_why(signed_in, jobs, name, see):
    job = jobs[name]
    signed_in.job(job["id"], *GUEST, page="dashboard")
    browser = signed_in.browser
    browser.wait(lambda: "failed" in browser.text(".f-dashboard-gauge"), "does not say that the job failed")
    browser.click(".f-log-subtab", None) if not browser.texts(".f-log-subtab--active") else None
    browser.click(".f-log-subtab-content", "error")
    time.sleep(3)
    signed_in.shot(f"14-dashboard-{name}")
    signed_in.job(job["id"], *GUEST)
    see("failed" in browser.text(".f-summary-list"), "the job's summary says that it failed")
    time.sleep(1)
    signed_in.shot(f"15-graph-{name}")
    task = "label_flip_0" if name == "refused" else "reader_0"
    signed_in.pick(task)
    signed_in.outputs()
    signed_in.tab("log")
    sentence = job["error"].partition(": ")[2][:60]
    browser.wait(lambda: sentence in signed_in.pane(), f"does not say {sentence!r}")
    see(True, f"the log of {task} says {sentence!r}")
    signed_in.shot(f"16-log-{name}")


def test_the_page_wrote_no_error_of_ours_into_the_console(signed_in, see):
    ours = [line for line in signed_in.browser.complaints() if not any(words in line for words in OF_THE_BOARD)]
    see(not ours, f"the browser's console has no error: {ours}")
