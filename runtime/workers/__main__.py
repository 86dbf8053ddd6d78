"""`python -m runtime.workers` is one process of a sidecar of several."""

import sys

from runtime.collector import loading

if __name__ == "__main__":
    with loading():
        from runtime.workers.child import main
    sys.exit(main(sys.argv[1:]))
