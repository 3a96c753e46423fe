"""`python -m ringroad.bench`: how fast ringroad's allreduce is, next to other backends of torch.distributed.

All peers run in the same processes, taking turns round by round, so that what the machine does meanwhile meets all of
them. Every result is verified.

- `__main__`: the command line; starts the ranks, prints the tables.
- `worker`: one rank; measures.
- `measure`: what is measured and how: bursts, rounds, statistics.
- `report`: tables, the verdict, and the record of the machine.
"""
