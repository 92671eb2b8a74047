"""A Slurm that is started once for all tests; without its programs they fail, and do not pass in silence."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from slurm_here import SlurmHere, missing
from slurm_pools import gate, instead, often_listed, private_state, submitted

__all__ = ["gate", "instead", "often_listed", "private_state", "slurm", "submitted"]

ASKED = os.environ.get("GRAINLIKE_TEST_LAUNCH", "").split()
TESTS_OF = {
    "slurm": ["test_lammps.py", "test_pages.py", "test_pools*.py", "test_slurm.py", "test_torque_over_slurm.py"],
    "sge": ["test_grid_engine.py"],
    "pbs": ["test_pbs.py"],
    "lsf": ["test_lsf.py"],
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
