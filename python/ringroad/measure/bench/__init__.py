"""`ringroad bench`: times collectives beside other libraries and beside a plain program.

All peers run in the same processes and take turns round by round, so that disturbances of the machine affect all of
them. Results are verified.

- `options`: the options of the command line (`commands/bench`), checked.
- `conductor`: measures size by size: warms up and gives all peers turns, within a budget of time.
- `launch`: starts the ranks, directly or through mpirun, and sends them commands; `worker`: a rank, which runs them.
- `peers`: the measured libraries: ringroad, torch.distributed's backends, mpi4py; `reference`: the plain program.
- `collectives`: the properties of collectives; `data`: the vectors and the verification of results.
- `statistics`, `record`, `table`, `verdict`, `plot`: evaluate, write, print, judge and draw the times.
"""
