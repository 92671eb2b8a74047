"""`python -m grainlike_bench.targets._part NAME ROUNDS`: measures one part in this process; the last line is JSON."""

from __future__ import annotations

import json
import sys

from grainlike_bench.targets._parts import PARTS

if __name__ == "__main__":
    print("\n" + json.dumps(PARTS[sys.argv[1]].measure(int(sys.argv[2]))), flush=True)
