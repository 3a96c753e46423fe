"""`ringroad bench`: times collectives beside other libraries.

All peers run in the same processes and take turns round by round, so that disturbances of the machine affect all of
them. Results are verified.

- `options`: the options of the command line (`cli/bench`), checked.
- `runner`: measures size by size: warms up and gives all `candidate`s turns, within a budget of time.
- `launch`: starts the ranks, directly or through mpirun, and sends them commands; `worker`: a rank, which runs them.
- `peers`: the measured libraries: ringroad, torch.distributed's backends, mpi4py.
- `collectives`: the properties of collectives; `data`: the vectors and the verification of results.
- `rows`, `table`, `choice`: evaluate and print the times, and compare the choice with all algorithms.
"""
