"""What is here is run by `make test-image` alone: it takes root, Buildah, and a base that has a Python."""

import os

collect_ignore_glob = [] if os.environ.get("GRAINLIKE_TEST_IMAGE") else ["test_*.py"]
