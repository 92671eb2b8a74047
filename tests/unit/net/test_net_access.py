"""Access files: written for one user, believed only when nobody else could have touched them."""

import contextlib
import errno
import fcntl
import json
import os
import re
import traceback
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from grainlike.errors import AuthenticationError, HeadLostError
from grainlike.net import (
    Access,
    Credentials,
    TcpAddress,
    UnixAddress,
    accesses_for,
    client_tls,
    current_folder,
    find_access,
    forget_journal,
    hold_lock,
    how_to_go_on,
    left_behind,
    make_credentials,
    move_access,
    note_journal,
    publish_access,
    read_access,
    remove_left_behind,
    state_directory,
    withdraw_access,
    write_access,
)

ADDRESS = TcpAddress("127.0.0.1", 7777)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "grainlike"


PROOF = Credentials("the authority", "its certificate", "the key")


@pytest.fixture
def access() -> Access:
    return Access("c1", "worker", (ADDRESS,), PROOF)


def publish(cluster: str = "c1", address: TcpAddress = ADDRESS) -> Path:
    return publish_access(accesses_for(cluster, (address,), {"head": PROOF, "worker": PROOF, "client": PROOF}))


def content(**changes: object) -> str:
    """The text of an access file."""
    fields = {"version": 1, "cluster": "c", "role": "worker", "addresses": ["tcp://h:1"]}
    return json.dumps({**fields, "authority": "a", "certificate": "c", "key": "k", **changes})


def mode(path: Path) -> int:
    return path.lstat().st_mode & 0o777


def test_what_is_published_is_found_in_every_way(access: Access, state: Path) -> None:
    folder = publish()
    assert folder == state / "c1"
    assert find_access() == access
    assert find_access(role="client") == replace(access, role="client")
    assert find_access("tcp://127.0.0.1:7777") == access
    assert find_access(str(folder / "worker.json")) == access
    assert find_access(folder / "head.json") == replace(access, role="head")


def test_only_its_owner_can_read_it(state: Path) -> None:
    previous = os.umask(0)
    try:
        folder = publish()
    finally:
        os.umask(previous)
    assert mode(state) == mode(folder) == 0o700
    assert {mode(path) for path in folder.iterdir()} == {0o600}
    assert sorted(path.name for path in state.iterdir()) == ["c1", "current"]
    assert sorted(path.name for path in folder.iterdir()) == ["client.json", "head.json", "worker.json"]


def test_the_file_is_the_documented_json() -> None:
    content = json.loads((publish() / "worker.json").read_text())
    assert content == {
        "version": 1,
        "cluster": "c1",
        "role": "worker",
        "addresses": ["tcp://127.0.0.1:7777"],
        "authority": "the authority",
        "certificate": "its certificate",
        "key": "the key",
    }


def test_a_cluster_without_tls_has_no_certificates(state: Path) -> None:
    publish_access(accesses_for("c1", (UnixAddress(state / "sock"),)))
    assert find_access().credentials is None


def test_the_key_is_in_no_repr_and_no_error(tmp_path: Path) -> None:
    proof = make_credentials("c1")["worker"]
    access = Access("c1", "worker", (ADDRESS,), proof)
    inside = proof.key.splitlines()[1]
    assert "PRIVATE" not in repr(access)
    assert inside not in repr(access)
    broken = Credentials(proof.authority, proof.certificate, proof.key.replace("BEGIN", "BEGUN"))
    with pytest.raises(ValueError, match="damaged") as caught:
        client_tls("c1", broken)
    assert inside not in "".join(traceback.format_exception(caught.value))
    assert repr(client_tls("c1", proof)) == "Tls(cluster='c1', is_server=False)"


def test_withdrawing_removes_everything_and_can_be_repeated(state: Path) -> None:
    publish()
    withdraw_access("c1")
    withdraw_access("c1")
    assert list(state.iterdir()) == []


def test_the_newest_is_current_and_outlives_the_older() -> None:
    publish("c1")
    publish("c2")
    assert find_access().cluster == "c2"
    withdraw_access("c1")
    assert find_access().cluster == "c2"
    withdraw_access("c2")
    with pytest.raises(HeadLostError, match="no head is running here"):
        find_access()


def test_the_one_other_head_is_the_current_one_when_that_has_gone(state: Path) -> None:
    folders = {name: publish(name) for name in ("c1", "c2", "c3")}
    with hold_lock(folders["c1"]):
        (folders["c1"] / "head.lock").rename(state / "kept")
    (state / "kept").rename(folders["c1"] / "head.lock")  # as a head that was killed leaves it
    withdraw_access("c3")
    assert current_folder() == folders["c2"]
    withdraw_access("c1")
    assert current_folder() == folders["c2"]


def test_files_made_beforehand_are_told_where_the_head_listens(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    for access in accesses_for("c1", (), make_credentials("c1")):
        write_access(access, folder / f"{access.role}.json")
    (folder / "client.json").unlink()
    before = read_access(folder / "worker.json")
    assert before.addresses == ()
    move_access(folder, "c1", (ADDRESS,))
    assert read_access(folder / "worker.json") == replace(before, addresses=(ADDRESS,))
    assert sorted(path.name for path in folder.iterdir()) == ["head.json", "worker.json"]


def test_files_of_another_cluster_are_not_touched(tmp_path: Path) -> None:
    write_access(Access("other", "worker", ()), tmp_path / "made" / "worker.json")
    move_access(tmp_path / "made", "c1", (ADDRESS,))
    assert read_access(tmp_path / "made" / "worker.json").addresses == ()


def test_those_that_run_are_named_when_the_current_one_has_gone(state: Path) -> None:
    folders = {name: publish(name) for name in ("c1", "c2", "c3", "c4")}
    for second, folder in enumerate(folders.values()):
        os.utime(folder / "worker.json", (second, second))
    assert current_folder() == folders["c4"]
    with hold_lock(folders["c3"]):
        (folders["c3"] / "head.lock").rename(state / "kept")
    (state / "kept").rename(folders["c3"] / "head.lock")  # as a head that was killed leaves it
    withdraw_access("c4")
    assert current_folder() is None
    at = re.escape(f"run: {state}/c2/worker.json, {state}/c1/worker.json; name one with --head, or in connect()")
    with pytest.raises(HeadLostError, match=f"there is no current head, as .* has ended, but these of yours {at}$"):
        find_access()
    for name in ("c1", "c2", "c3"):
        withdraw_access(name)
    with pytest.raises(HeadLostError, match=r"Executor\(listen=\.\.\.\)$"):
        find_access()


def test_the_newest_journal_of_those_that_run_no_more_is_named(state: Path, tmp_path: Path) -> None:
    for second, name in enumerate(("c1", "c2", "c3", "c4"), start=1):
        (tmp_path / name).mkdir()
        note_journal(name, tmp_path / name)
        os.utime(state / "journals" / name, (second, second), follow_symlinks=False)
    publish("c4")  # it runs
    (tmp_path / "c3").rmdir()
    assert "--journal " + str(tmp_path / "c2") in how_to_go_on()
    assert "--journal " + str(tmp_path / "c4") in how_to_go_on("c4")
    assert how_to_go_on("c3") == how_to_go_on("c5") == ""
    withdraw_access("c4")
    with pytest.raises(
        HeadLostError, match=f"head, started 19(69|70)-.*, kept a journal: .*{tmp_path}/c4` goes on.*; or start one"
    ):
        find_access()
    for name in ("c1", "c2", "c4"):
        forget_journal(tmp_path / name)
    assert how_to_go_on() == ""


def test_a_journal_that_cannot_be_looked_at_is_no_reason_to_name_no_other(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("away", "gone", "here"):
        (tmp_path / name).mkdir()
        note_journal(name, tmp_path / name)
    (state / "journals" / ".here.0123").symlink_to(tmp_path)  # of a head that was killed as it wrote its note
    look, lstat = os.stat, Path.lstat

    def stat(path: str | Path, **options: bool) -> os.stat_result:
        if options.get("follow_symlinks", True) and str(path) == f"{state}/journals/away":
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN), str(path))
        return look(path, **options)

    def forgotten(note: Path) -> os.stat_result:
        if note.name == "gone":
            note.unlink(missing_ok=True)  # its head has just ended its work
        return lstat(note)

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(Path, "lstat", forgotten)
    assert how_to_go_on("away") == ""
    assert f"--journal {tmp_path / 'here'}`" in how_to_go_on()
    assert not (state / "journals" / "gone").is_symlink()


def test_a_journal_that_a_head_has_is_not_offered(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    note_journal("c1", tmp_path / "journal")
    with (tmp_path / "journal" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert how_to_go_on() == ""
        assert how_to_go_on("c1").startswith("a head goes on with its work already: try again, or with a new copy")
    assert "head start --journal" in how_to_go_on()
    assert how_to_go_on("c1").startswith("it kept a journal: ")


def test_nothing_to_find_says_what_to_do(state: Path) -> None:
    with pytest.raises(HeadLostError, match=r"no head is running here.*start one with"):
        find_access()
    with pytest.raises(
        HeadLostError, match=r"no access file for tcp://127\.0\.0\.1:7777.*no head of yours listens there"
    ):
        find_access("tcp://127.0.0.1:7777")
    with pytest.raises(HeadLostError, match="if it is an address, write tcp://login1:7777"):
        find_access("login1:7777")
    with pytest.raises(HeadLostError, match="an address is written tcp://HOST:PORT"):
        find_access("nonsense")
    with pytest.raises(HeadLostError, match=r"no access file at .*gone\.json"):
        find_access(state / "gone.json")
    with pytest.raises(ValueError, match="needs a host and a port"):
        find_access("tcp://nonsense")


@pytest.mark.parametrize(
    "what", ["{}", "{}:77", "/{}.json", "tcp://{}", "tcp://{}:77", "unix:///{}", "unix://{}", "ftp://{}"]
)
def test_a_name_that_is_too_long_for_the_system_is_refused_in_few_words(state: Path, what: str) -> None:
    with pytest.raises((HeadLostError, AuthenticationError, ValueError)) as refused:
        find_access(what.format(10_000 * "x"))
    assert len(str(refused.value)) < 1000


def test_an_address_is_found_beside_a_broken_file(access: Access, state: Path) -> None:
    publish("a-broken", TcpAddress("127.0.0.1", 1))
    (state / "a-broken" / "worker.json").write_text("{")
    publish()
    assert find_access("tcp://127.0.0.1:7777") == access


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o620, 0o602])
def test_a_file_open_to_others_is_refused_with_the_command_that_mends_it(bits: int) -> None:
    path = publish() / "worker.json"
    path.chmod(bits)
    with pytest.raises(AuthenticationError, match=f"chmod 600 {path}"):
        read_access(path)
    with pytest.raises(PermissionError):
        find_access()


@pytest.mark.parametrize("text", ["root:x:0:0:root:/root:/bin/bash", "", "{}"])
def test_nobody_is_told_to_close_a_file_that_is_no_access_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "passwd"
    path.write_text(text)
    path.chmod(0o644)
    with pytest.raises(ValueError, match=f"{path} is not an access file"):
        read_access(path)


def test_a_file_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    path = publish() / "worker.json"
    ours = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: ours + 1)
    with pytest.raises(AuthenticationError, match=f"belongs to user id {ours}, not to us"):
        read_access(path)


def test_a_symlink_is_not_followed(tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(publish() / "worker.json")
    with pytest.raises(AuthenticationError, match="cannot read"):
        read_access(link)


def test_a_fifo_does_not_hold_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.json", 0o600)
    with pytest.raises(AuthenticationError, match="not a regular file"):
        read_access(tmp_path / "fifo.json")


def test_a_directory_is_no_access_file_and_is_closed_again(access: Access, tmp_path: Path) -> None:
    (publish().parent / "a" / "worker.json").mkdir(parents=True)
    descriptors = psutil.Process().num_fds()
    with pytest.raises(AuthenticationError, match="not a regular file"):
        read_access(tmp_path)
    assert find_access(str(ADDRESS)) == access
    assert psutil.Process().num_fds() == descriptors


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 100_000,
        '{"version": 1}',
        content(addresses=["nowhere"]),
        content(addresses=[5]),
        content(addresses=5),
        content(cluster="../c"),
        content(cluster=5),
        content(role="god"),
        content(role=["worker"]),
        content(key=5),
        content(key=None),
        content(authority=None, certificate=None),
        json.dumps({"version": 1, "cluster": "c", "role": "worker", "addresses": []}),
        content() + " " * 70_000,
    ],
)
def test_what_is_no_access_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ValueError, match=f"{path} is not an access file"):
        read_access(path)


values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
json_like = st.recursive(
    values, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
fields = st.sampled_from(["version", "cluster", "role", "addresses", "authority", "certificate", "key", "more"])


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.dictionaries(fields, json_like), left_out=st.sets(fields, max_size=2))
def test_a_file_with_any_fields_is_read_or_refused_by_name(
    tmp_path: Path, changes: dict[str, object], left_out: set[str]
) -> None:
    whole = {**json.loads(content()), **changes}
    check_read_or_refused(tmp_path, json.dumps({key: value for key, value in whole.items() if key not in left_out}))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=3), st.integers(0, 3)), max_size=5))
def test_a_file_with_any_bytes_is_read_or_refused_by_name(tmp_path: Path, edits: list[tuple[int, bytes, int]]) -> None:
    data = content().encode()
    for at, insert, cut in edits:
        data = data[:at] + insert + data[at + cut :]
    check_read_or_refused(tmp_path, data.decode("latin-1"))


def check_read_or_refused(folder: Path, text: str) -> None:
    path = folder / "file.json"
    path.write_text(text, encoding="latin-1", errors="replace")
    path.chmod(0o600)
    with contextlib.suppress(ValueError):  # and nothing else
        access = read_access(path)
        assert access.role in ("head", "worker", "client")
        assert access.credentials is None or isinstance(access.credentials.key, str)


def test_a_later_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text('{"version": 2}')
    path.chmod(0o600)
    with pytest.raises(ValueError, match="version 2; this grainlike reads version 1"):
        read_access(path)


def test_a_directory_open_to_others_is_refused(state: Path) -> None:
    state.mkdir(mode=0o755)
    with pytest.raises(PermissionError, match=f"chmod 700 {state}"):
        publish()


def test_writing_again_replaces_and_leaves_nothing_beside(access: Access, tmp_path: Path) -> None:
    path = tmp_path / "own" / "file.json"
    write_access(access, path)
    newer = Access("c1", "worker", (ADDRESS, TcpAddress("::1", 2)), replace(PROOF, key="newer"))
    write_access(newer, path)
    assert read_access(path) == newer
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "current", "x" * 41, "a b", "a.b", "a-"])
def test_a_cluster_may_not_have_a_name_that_is_a_path(name: str) -> None:
    with pytest.raises(ValueError, match="a cluster's name"):
        Access(name, "worker", ())


@pytest.mark.parametrize("value", ["", "relative/state"])
def test_without_a_usable_state_home_the_default_is_under_home(
    value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", value)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_directory() == tmp_path / ".local" / "state" / "grainlike"
    monkeypatch.setenv("HOME", "")
    assert state_directory().is_absolute()


# --- heads that were killed -------------------------------------------------------------------------------------------


def killed_head(cluster: str) -> Path:
    """What a head leaves that had no time to remove its files."""
    folder = publish(cluster)
    child = os.fork()
    if child == 0:
        with hold_lock(folder):
            os._exit(0)
    os.waitpid(child, 0)
    return folder


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_what_a_killed_head_left_is_found_and_removed_and_a_living_ones_is_not(state: Path) -> None:
    living, prepared = publish("living"), publish("prepared")
    with hold_lock(living):
        dead = killed_head("dead")
        assert (state / "current").readlink() == Path("dead")
        assert left_behind() == [dead]
        assert remove_left_behind() == ["dead"]
        assert sorted(path.name for path in state.iterdir()) == ["living", "prepared"]
        assert left_behind() == []
    assert [path.name for path in living.iterdir() if "lock" in path.name] == []
    assert (prepared / "worker.json").exists()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_of_a_head_of_another_machine_a_lock_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    killed_head("far")
    monkeypatch.setattr("socket.gethostname", lambda: "another")
    assert left_behind() == []


def test_where_there_are_no_locks_no_head_is_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    folder = publish("c1")
    monkeypatch.setattr("fcntl.flock", refuse)
    with hold_lock(folder):
        assert left_behind() == []
    assert sorted(path.name for path in folder.iterdir()) == ["client.json", "head.json", "worker.json"]
