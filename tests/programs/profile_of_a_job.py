"""A communicator uses the profile that the first argument names, and smaller ones do not."""

import sys

import ringroad

whole = ringroad.Communicator.in_process(4, topology="ring:4")
assert whole[0].profile == sys.argv[1]
for _ in range(2):
    group = ringroad.Communicator.in_process(2, topology="ring:2")
    assert group[0].profile is None
    for communicator in group:
        communicator.close()
for communicator in whole:
    communicator.close()
