"""A Slurm, and machines by SSH, started once for all tests; without their programs they fail, not pass in silence."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
import sshd_here
from slurm_here import SlurmHere, missing
from slurm_pools import gate, instead, often_listed, private_state, submitted

__all__ = ["gate", "instead", "often_listed", "private_state", "slurm", "ssh", "submitted"]

ASKED = os.environ.get("GRAINLIKE_TEST_LAUNCH", "").split()
TESTS_OF = {
    "slurm": ["test_lammps.py", "test_pages.py", "test_pools*.py", "test_slurm.py", "test_torque_over_slurm.py"],
    "sge": ["test_grid_engine.py"],
    "pbs": ["test_pbs.py"],
    "lsf": ["test_lsf.py"],
    "ssh": ["test_ssh*.py"],
    "k8s": ["test_kubernetes.py"],
}
collect_ignore_glob = [name for system, names in TESTS_OF.items() if system not in ASKED for name in names]


@pytest.fixture(scope="session")
def slurm():
    """Four nodes of four CPUs, the first with a GPU that is a character device; its commands find it."""
    if missing():
        pytest.fail(f"{', '.join(missing())} not installed: apt-get install slurm-wlm munge", pytrace=False)
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # munged's user must get there, so it is not pytest's
    folder.chmod(0o755)
    before = os.environ.get("SLURM_CONF")
    try:
        with SlurmHere(folder) as started:
            os.environ["SLURM_CONF"] = started.environment["SLURM_CONF"]
            yield started
    finally:
        os.environ.pop("SLURM_CONF", None)
        if before is not None:
            os.environ["SLURM_CONF"] = before
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def ssh():
    """Machines by SSH, none yet; those that a test adds end with it."""
    if sshd_here.missing():
        words = ", ".join(sshd_here.missing())
        pytest.fail(f"{words} not installed: apt-get install openssh-server openssh-client iproute2", pytrace=False)
    folder = Path(tempfile.mkdtemp(prefix="ssh-"))
    folder.chmod(0o755)  # sshd trusts no keys below a folder that others could write to
    try:
        with sshd_here.SSHHere(folder) as started:
            yield started
    finally:
        shutil.rmtree(folder, ignore_errors=True)
