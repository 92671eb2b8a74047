"""`python -m grainlike_worker.keeper`: the process that forks the runners of a worker, and ends what they leave."""

import gc
import sys

if __name__ == "__main__":
    gc.disable()  # until it serves: it would look again and again through all that the modules bring
    from grainlike_worker.keeper._keeper import main

    main(sys.argv[1:])
