"""`python -m ringroad.bench`: the same as `ringroad bench`."""

import sys

from ringroad.cli import main

if __name__ == "__main__":
    main(["bench", *sys.argv[1:]])
