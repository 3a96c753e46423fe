"""`python -m ringroad`."""

from ringroad.cli import main

main()
