"""The administrator's key: made once, kept private, and never the published one."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from fate_dp.deploy.flow.home import kept_key, set_settings
from fate_dp.deploy.flow.programs import FlowServerError


def install_administrator_key(settings, key_file):
    set_settings(settings, {"ADMIN_KEY": kept_key(key_file)})


@pytest.fixture
def settings(tmp_path):
    package = Path(importlib.util.find_spec("fate_flow").origin).parent
    return Path(shutil.copy(package / "settings.py", tmp_path / "settings.py"))


def test_the_key_is_made_once_and_stands_in_the_settings(settings, tmp_path):
    key_file = tmp_path / "conf" / "administrator.key"
    published = settings.read_text()
    install_administrator_key(settings, key_file)
    key, first = key_file.read_text(), settings.read_text()
    assert len(key) == 32 and first == published.replace('"fate_flow_admin"', f"'{key}'") != published
    assert [file.stat().st_mode & 0o777 for file in (settings, key_file)] == [0o600, 0o600]
    settings.write_text(published)
    install_administrator_key(settings, key_file)
    assert key_file.read_text() == key and settings.read_text() == first
    install_administrator_key(settings, tmp_path / "other.key")
    assert key not in settings.read_text(), "another home has another key"


@pytest.mark.parametrize("content", ["", "short", 'x"; import os; y="aaaaaaaaaaaaa', "a" * 20 + "\n" + "b" * 20])
def test_what_is_no_key_is_not_written_into_a_program(content, settings, tmp_path):
    before = settings.read_text()
    (tmp_path / "administrator.key").write_text(content)
    with pytest.raises(FlowServerError, match="administrator's key in .* must be 16 or more"):
        install_administrator_key(settings, tmp_path / "administrator.key")
    assert settings.read_text() == before


def test_settings_of_another_form_are_refused(settings, tmp_path):
    settings.write_text("import os\nOTHER = 1\n")
    with pytest.raises(FlowServerError, match="sets ADMIN_KEY 0 times"):
        install_administrator_key(settings, tmp_path / "administrator.key")
    assert settings.read_text() == "import os\nOTHER = 1\n"
