"""What is here is run by `make test-kernel` alone: it takes a machine whose root cgroup it may change."""

import os

collect_ignore_glob = [] if os.environ.get("GRAINLIKE_TEST_KERNEL") else ["test_*.py"]
