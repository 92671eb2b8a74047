"""Settings: which source decides, and what is refused."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

import grainlike
from grainlike import SettingsError
from grainlike.cache import results_directory
from grainlike.client._introduction import find_client_access
from grainlike.launch import Slurm, load
from grainlike.settings import SECTIONS, _files, read_settings

NAMES = {str: "text", bool: "true or false", float: "number"}


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """The working directory, the user's and the site's, all empty."""
    for name in list(os.environ):
        if name.startswith("GRAINLIKE_") and "__" in name:
            monkeypatch.delenv(name)
    for name in ("work", "config/grainlike", "etc"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(_files, "SITE", tmp_path / "etc" / "grainlike.toml")
    return tmp_path


def write(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)


def test_where_the_working_directory_was_removed_the_users_file_counts(places):
    (places / "work").rmdir()
    write(places / "config" / "grainlike" / "grainlike.toml", "[head]\nlisten = 'tcp://127.0.0.1:7'\n")
    assert read_settings().get("head", "listen") == "tcp://127.0.0.1:7"


def test_nothing_is_set_by_itself():
    settings = read_settings()
    assert (dict(settings.sections), dict(settings.pools)) == ({}, {})
    assert settings.get("head", "listen") is None


def test_the_first_source_that_has_a_key_decides(places, monkeypatch):
    sources = [
        places / "work" / "grainlike.toml",
        places / "work" / "pyproject.toml",
        places / "config" / "grainlike" / "grainlike.toml",
        places / "etc" / "grainlike.toml",
    ]
    for number, path in reversed(list(enumerate(sources))):
        head = "[tool.grainlike.head]" if path.name == "pyproject.toml" else "[head]"
        write(path, f'{head}\nlisten = "tcp://127.0.0.1:{number}"\n')
        assert read_settings().sections["head"]["listen"].origin == str(path)
        assert read_settings().get("head", "listen") == f"tcp://127.0.0.1:{number}"
    monkeypatch.setenv("GRAINLIKE_HEAD__LISTEN", "tcp://127.0.0.1:9")
    assert read_settings().sections["head"]["listen"].origin == "GRAINLIKE_HEAD__LISTEN"
    assert read_settings().get("head", "listen") == "tcp://127.0.0.1:9"


def test_sources_are_merged_key_by_key(places, monkeypatch):
    write(places / "work" / "grainlike.toml", '[worker]\nidle = "60"\n')
    write(places / "config" / "grainlike" / "grainlike.toml", '[worker]\nidle = "70"\nwait = true\npatience = 8\n')
    monkeypatch.setenv("GRAINLIKE_WORKER__PATIENCE", "9.5")
    found = read_settings()
    assert [found.get("worker", key) for key in ("idle", "wait", "patience", "head")] == ["60", True, 9.5, None]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[head]\nlistn = 'x'", r"grainlike\.toml: \[head\] listn: there is no such key; did you mean 'listen'\?"),
        ("[head]\nzzz = 1", r"\[head\] zzz: there is no such key; known are listen, access, journal"),
        ("[haed]\nlisten = 'x'", r"\[haed\]: there is no such section; did you mean 'head'\?"),
        ("[haed]", r"\[haed\]: there is no such section; did you mean 'head'\?"),
        ("listen = 'x'", r"listen stands outside of a section; it belongs into \[head\]"),
        ("nonsense = 'x'", r"nonsense is no section"),
        ("[head]\nlisten = 7", r"\[head\] listen: 7 is no text"),
        ("[head]\nrecord = 1", r"\[head\] record: 1 is no true or false"),
        ("[worker]\npatience = true", r"\[worker\] patience: True is no number"),
        ("[worker]\nlog_level = 'loud'", r"\[worker\] log_level: 'loud' is none of debug, info, warning, error"),
        ("[head\n", r"grainlike\.toml: .*line 1"),
        ("pool = 3", r"pool: write a table for each, as \[pool\.cpu\]"),
        ("[pool]\ncpu = 3", r"pool\.cpu: write a table for each"),
    ],
)
def test_a_file_that_is_not_right_is_refused_with_the_nearest_right_word(places, text, words):
    write(places / "work" / "grainlike.toml", text)
    with pytest.raises(SettingsError, match=words):
        read_settings()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("GRAINLIKE_HEAD__LISTN", "x", r"GRAINLIKE_HEAD__LISTN: \[head\] listn: .* did you mean 'listen'\?"),
        ("GRAINLIKE_HAED__LISTEN", "x", r"GRAINLIKE_HAED__LISTEN: \[haed\]: .* did you mean 'head'\?"),
        ("GRAINLIKE_HEAD__RECORD", "maybe", r"'maybe' is no true or false"),
        ("GRAINLIKE_WORKER__PATIENCE", "long", r"'long' is no number"),
        ("GRAINLIKE_POOL__CPU", "x", r"pools are described in files alone"),
    ],
)
def test_a_variable_that_is_not_right_is_refused(monkeypatch, name, value, words):
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=words):
        read_settings()


def test_variables_of_jobs_are_no_settings(monkeypatch):
    monkeypatch.setenv("GRAINLIKE_CORES", "1,2")
    monkeypatch.setenv("GRAINLIKE_KEEP_SCRATCH", "failed")
    assert dict(read_settings().sections) == {}


@pytest.mark.parametrize(("text", "value"), [("true", True), ("ON", True), ("1", True), ("no", False), ("0", False)])
def test_words_for_true_and_false(monkeypatch, text, value):
    monkeypatch.setenv("GRAINLIKE_HEAD__RECORD", text)
    assert read_settings().get("head", "record") is value


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_could_have_written_is_refused(places, mode):
    path = places / "work" / "grainlike.toml"
    write(path, "[head]\nrecord = true", mode)
    with pytest.raises(SettingsError, match=f"could have been written by others; close it with: chmod go-w {path}"):
        read_settings()
    path.chmod(0o644)
    assert read_settings().get("head", "record") is True


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_refused(places):
    path = places / "work" / "grainlike.toml"
    write(path, "[head]\nrecord = true")
    os.chown(path, 12345, -1)
    with pytest.raises(SettingsError, match="belongs to user id 12345"):
        read_settings()


def test_a_project_without_settings_may_be_written_by_others_and_broken(places):
    path = places / "work" / "pyproject.toml"
    write(path, "[project]\nname = 'x'", 0o666)
    assert dict(read_settings().sections) == {}
    write(path, "[project", 0o666)
    assert dict(read_settings().sections) == {}
    write(path, "[tool.grainlike.head\n")
    with pytest.raises(SettingsError, match=r"pyproject\.toml"):
        read_settings()


def test_a_pipe_in_the_place_of_a_file_blocks_nobody(places):
    os.mkfifo(places / "work" / "grainlike.toml")
    with pytest.raises(SettingsError, match="no regular file"):
        read_settings()


def test_a_directory_in_the_place_of_a_file_is_named_and_leaves_nothing_open(places):
    path = places / "work" / "grainlike.toml"
    path.mkdir()
    opened = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(SettingsError, match=f"{path}: it is no regular file"):
        read_settings()
    assert len(list(Path("/proc/self/fd").iterdir())) == opened


def test_a_pool_extends_another_of_another_file(places):
    write(
        places / "etc" / "grainlike.toml", "[pool.site]\nkind = 'slurm'\nwalltime = '1:00:00'\naccount = 'p17'\nmax = 2"
    )
    write(places / "work" / "grainlike.toml", "[pool.cpu]\nextends = 'site'\nresources = 'cores=4'\nmax = 8")
    assert load("cpu") == Slurm("cores=4", walltime=3600, account="p17", max=8)
    assert read_settings().pool("cpu")["account"].origin == str(places / "etc" / "grainlike.toml")


def test_a_pool_of_the_site_is_changed_key_by_key(places):
    write(places / "etc" / "grainlike.toml", "[pool.cpu]\nkind = 'slurm'\nwalltime = '1:00:00'\nmax = 2")
    write(places / "work" / "grainlike.toml", "[pool.cpu]\nmax = 3")
    assert load("cpu") == Slurm(walltime=3600, max=3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[pool.gpu]\nkind = 'local'", r"there is no \[pool\.cpu\]; did you mean 'gpu'\?"),
        (
            "[pool.cpu]\nextends = 'sute'\n[pool.site]\nkind='local'",
            r"\[pool\.cpu\] extends: there is no \[pool\.sute\]",
        ),
        ("[pool.cpu]\nextends = 'b'\n[pool.b]\nextends = 'cpu'", r"\[pool\.cpu\] extends itself: cpu -> b -> cpu"),
        ("[pool.cpu]\nextends = 3", r"extends: 3 is no pool's name"),
        ("[pool.cpu]\nkind = 'slurm'\nquue = 'x'", r"grainlike\.toml: \[pool\.cpu\] quue: .* did you mean 'queue'\?"),
    ],
)
def test_a_pool_that_is_not_right_is_refused(places, text, words):
    write(places / "work" / "grainlike.toml", text)
    with pytest.raises(ValueError, match=words):
        load("cpu")


def test_the_directory_of_results_may_be_set(places):
    write(places / "work" / "grainlike.toml", f"[cache]\ndirectory = '{places}/results'")
    assert results_directory() == places / "results"


def test_the_head_of_programs_may_be_set(places):
    write(places / "work" / "grainlike.toml", f"[client]\nhead = '{places}/nowhere.json'")
    with pytest.raises((OSError, ValueError), match=r"nowhere\.json"):
        find_client_access(None)


def test_the_page_has_all_keys():
    page = (Path(grainlike.__file__).parents[1] / "docs" / "settings.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| ([a-z ]+) \| (.*) \|$", page, re.MULTILINE)
    assert rows == [
        (section, key, NAMES[known.type], known.says + _choices(known))
        for section, keys in SECTIONS.items()
        for key, known in keys.items()
    ]


def _choices(known):
    return f": {', '.join(f'`{word}`' for word in known.choices)}" if known.choices else ""


@given(
    listen=st.text(
        st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters='"\\'), max_size=20
    ),
    patience=st.floats(0, 1e6),
    wait=st.booleans(),
)
@examples(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read_back(places, listen, patience, wait):
    text = f'[head]\nlisten = "{listen}"\n[worker]\npatience = {patience!r}\nwait = {str(wait).lower()}\n'
    write(places / "work" / "grainlike.toml", text)
    found = read_settings()
    assert found.get("head", "listen") == listen
    assert found.get("worker", "patience") == patience
    assert found.get("worker", "wait") is wait
