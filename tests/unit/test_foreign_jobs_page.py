"""docs/foreign_jobs.md names every parameter by which a job reaches code, files or addresses, of all that FATE 2.2.0 can run."""

import inspect
import re
from pathlib import Path

import pytest
from fate.components.components import LazyBuildInComponentsLoader
from fate_flow.components.components.download import DownloadParam
from fate_flow.components.components.upload import UploadParam

from fate_dp.components.disclosure.declaration import catalogue
from fate_dp.deploy.fate_patches import job_gate

PAGE = (Path(__file__).parents[2] / "docs" / "foreign_jobs.md").read_text(encoding="utf-8")
LINEAR = "batch_size cv_param early_stop epochs init_param metrics output_cv_data tol"
COORDINATED = f"{LINEAR} floating_point_precision he_param learning_rate_scheduler optimizer"
SHARED = f"{LINEAR} learning_rate reveal_every_epoch reveal_loss_freq threshold"
# Read one by one: numbers, choices, names of columns.
HARMLESS = {
    "artifact_test": "parameter",
    "coordinated_linr": COORDINATED,
    "coordinated_lr": f"{COORDINATED} threshold",
    "cv_test2": "num_fold",
    "data_split": "hetero_sync random_state stratified test_size train_size validate_size",
    "dataframe_io_test": "",
    "dataframe_transformer": "site_name",
    "download": "",
    "evaluation": "default_eval_setting label_column_name metrics predict_column_name",
    "feature_correlation": "calc_local_vif local_only skip_col use_anonymous",
    "feature_scale": "feature_range method scale_col scale_idx strict_range use_anonymous",
    "hetero_feature_binning": (
        "adjustment_factor bin_col bin_idx category_col category_idx he_param local_only method n_bins "
        "relative_error skip_metrics split_pt_dict transform_method use_anonymous"
    ),
    "hetero_feature_selection": "iv_param keep_one manual_param method select_col statistic_param use_anonymous",
    "hetero_nn": "",
    "hetero_secureboost": (
        "complete_secure cv_param gh_pack goss goss_start_iter he_param hist_sub l1 l2 learning_rate max_bin max_depth "
        "min_child_weight min_impurity_split min_leaf_node min_sample_split num_class num_trees objective "
        "other_rate output_cv_data split_info_pack top_rate"
    ),
    "homo_lr": "batch_size epochs init_param label_num learning_rate_scheduler optimizer ovr threshold",
    "homo_nn": "",
    "multi_model_test": "",
    "psi": "curve_type protocol",
    "reader": "",
    "sample": "frac hetero_sync n random_state replace",
    "sshe_linr": SHARED,
    "sshe_lr": SHARED,
    "statistics": "bias ddof metrics relative_error skip_col use_anonymous",
    "toy_example": "data_num partition",
    "union": "",
    "upload": "extend_sid head meta partitions",
}


def rows():
    """[(names in the first cell, names in the second)] of the table."""
    cells = [line.split("|")[1:3] for line in PAGE.splitlines() if line.startswith("| ") and "---" not in line]
    return [tuple(set(re.findall(r"`(\w+)", cell)) for cell in each) for each in cells]


def parameters_of(component):
    if component in ("upload", "download"):
        kind = UploadParam if component == "upload" else DownloadParam
        return set(inspect.signature(kind.__init__).parameters) - {"self"}
    loaded = LazyBuildInComponentsLoader().load_cpn(component)
    return {name for each in (loaded, *loaded.stage_components) for name in each.parameters.mapping}


def test_all_components_of_fate_have_been_read():
    known = {*LazyBuildInComponentsLoader().list(), "upload", "download"}
    assert known == set(HARMLESS) == set(catalogue()) and all(map(job_gate.is_known, known))


@pytest.mark.parametrize("component", HARMLESS)
def test_each_parameter_is_harmless_or_stands_in_the_table(component):
    listed = set().union(*(second for first, second in rows() if component in first))
    harmless = set(HARMLESS[component].split())
    assert parameters_of(component) <= harmless | listed and harmless <= parameters_of(component) - listed


def test_what_is_for_own_jobs_only_is_said_so():
    own = [line for line in PAGE.splitlines() if "own jobs only" in line]
    assert {name for line in own for name in re.findall(r"`(\w+)`", line.split("|")[1])} == set(job_gate.WORK_ON_FILES)
