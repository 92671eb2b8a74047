"""How an image takes the place of segments: killed between any two steps, nothing is lost."""

from journal_stands import KilledError, KillingDisk, QuickDisk, fill, recover

from grainlike.journal import Journal, commit_image

STEPS = {
    "open": ["write", "remove", "sync", "sync_directory"],
    "a": ["write"],
    "begin": ["create", "write"],
    "b": ["write"],
    "image": ["create", *["write"] * 5, "sync", "rename", "sync_directory"],
    "c": ["write"],
    "forget": ["remove", "remove"],
    "d": ["write"],
    "sync": ["sync", "sync", "sync_directory"],
}
"""What each step changes. To open is to write who holds the lock, and to remove what an older life has left."""

BEFORE = [b"x", b"y"]


class Life:
    """Goes through the steps, on a journal of two segments with an older image, until it is killed."""

    def __init__(self, directory, disk):
        self.directory, self.disk = directory, disk
        self.accepted = list(BEFORE)
        self.journal = None

    def take(self, step):
        if step == "open":
            self.journal, _ = Journal.open(self.directory, disk=self.disk)
        elif step == "begin":
            self.segment, self.state = self.journal.begin_segment(), list(self.accepted)
        elif step == "image":
            commit_image(self.directory, self.segment, self.state, disk=self.disk)
        elif step == "forget":
            self.journal.forget_before(self.segment)
        elif step == "sync":
            self.journal.sync()
        else:
            self.journal.append(step.encode())
            self.accepted.append(step.encode())


def prepare(directory):
    """A journal of two segments, with an image of the second; the first is still there."""
    fill(directory, BEFORE[:1], [], image=BEFORE[:1])
    (directory / "0000000000000001.log").rename(directory / "kept")
    fill(directory, BEFORE[1:])
    (directory / "kept").rename(directory / "0000000000000001.log")


def die(life):
    """What the system does with the files of a process that is killed."""
    if life.journal is not None:
        life.journal._disk = QuickDisk()
        life.journal.close()


def test_the_steps_are_these(tmp_path):
    prepare(tmp_path)
    life = Life(tmp_path, KillingDisk())
    for step, calls in STEPS.items():
        life.disk.calls.clear()
        life.take(step)
        assert life.disk.calls == calls, step
    die(life)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "0000000000000003.image",
        "0000000000000003.log",
        "lock",
    ]


def test_killed_between_any_two_steps_nothing_is_lost(tmp_path):
    for at in range(1, sum(map(len, STEPS.values())) + 1):
        directory = tmp_path / str(at)
        prepare(directory)
        life = Life(directory, KillingDisk(at))
        try:
            for step in STEPS:
                life.take(step)
        except KilledError:
            die(life)
        else:
            raise AssertionError(f"nothing was done at {at}")
        image, records, found = recover(directory)
        assert [*image, *records] == life.accepted, at
        assert found.cut == 0
        left = {path.name for path in directory.iterdir()}
        assert len([name for name in left if name.endswith(".image")]) == 1, at
        assert not [name for name in left if name.endswith(".new")], at
