"""`ringroad bench`: how fast collectives are, next to other libraries and to what the machine allows.

All peers run in the same processes and take turns round by round, so that what the machine does meanwhile meets all of
them. Results are verified.

- `options`: what was asked for, on the command line (`commands/bench`).
- `conductor`: measures, size by size: warms up, gives everybody turns, within a budget of time.
- `launch`: starts the ranks, itself or through mpirun, and talks to them; `worker`: a rank; it obeys.
- `peers`: who is measured: ringroad, torch.distributed's backends, mpi4py; `reference`: the plain program.
- `collectives`: what every collective does to vectors; `data`: the vectors, and whether a result is right.
- `statistics`, `record`, `table`, `verdict`, `plot`: what times say, and how they are written, printed, judged, drawn.
"""
