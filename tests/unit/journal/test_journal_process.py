"""Real processes: one that is killed while it appends, beside a child of its own that writes an image."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from journal_stands import recover

ROOT = Path(__file__).parents[3]

PROGRAM = """
import os, sys
from pathlib import Path
from grainlike.journal import Journal, commit_image
directory = Path(sys.argv[1])
journal, _ = Journal.open(directory)
for number in range(200):
    journal.append([b"%d," % number, b"x" * (number % 50)])
segment = journal.begin_segment()
reader, writer = os.pipe()
if not os.fork():
    os.close(writer)
    os.read(reader, 1)  # until the parent has appended more
    commit_image(directory, segment, (b"%d" % number for number in range(200)))
    os._exit(0)
for number in range(200, 400):
    journal.append([b"%d," % number, b"x" * (number % 50)])
os.write(writer, b"x")
assert os.wait()[1] == 0
journal.forget_before(segment)
while True:
    number = journal.position
    journal.append([b"%d," % number, b"x" * (number % 50)])
    print(journal.position, flush=True)
"""


def test_a_killed_process_leaves_all_that_it_has_appended(tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "journal")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
        assert process.stdout is not None
        heard = [int(process.stdout.readline()) for _ in range(300)]
        process.send_signal(signal.SIGKILL)
        heard += [int(line) for line in process.stdout if line.endswith(b"\n")]
    assert process.returncode == -signal.SIGKILL
    image, records, found = recover(tmp_path / "journal")
    assert image == [b"%d" % number for number in range(200)]
    assert found.position >= heard[-1] >= 700
    assert records == [b"%d," % number + b"x" * (number % 50) for number in range(200, found.position)]
    assert sorted(path.name for path in (tmp_path / "journal").glob("*.log")) == ["0000000000000002.log"]
