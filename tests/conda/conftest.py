"""Tests that `make test-conda` alone runs: they take rattler's library, and an index of wheels."""

import os

collect_ignore_glob = [] if os.environ.get("GRAINLIKE_TEST_CONDA") else ["test_*.py"]
