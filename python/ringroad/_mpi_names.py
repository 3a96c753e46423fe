"""What mpi4py's names are here, for programs that are ported. Most are the same in lower case."""

_OTHERS = """
Get_rank=rank Get_size=size Bcast=broadcast bcast=broadcast_object isend=Isend_object irecv=Irecv_object
Reduce_scatter_block=reduce_scatter Sendrecv_replace=sendrecv Split_type=split Clone=dup Free=close
Create_cart=cart Create_dist_graph_adjacent=graph Get_coords=coordinates_of Get_cart_rank=rank_at
Test=is_completed test=is_completed
"""


def missing(owner: object, name: str) -> AttributeError:
    """The error for an attribute that `owner` does not have."""
    text = f"{type(owner).__name__!r} object has no attribute {name!r}"
    if not name.startswith("_") and (here := _here(dir(owner), name)):
        text += f"; mpi4py's {name} is {here} here (docs/moving.md)"
    return AttributeError(text, name=name, obj=owner)


def _here(names: list[str], name: str) -> str | None:
    """What mpi4py's name is among these."""
    name = dict(pair.split("=") for pair in _OTHERS.split()).get(name, name)
    if (lower := name.lower().replace("neighbor_", "neighbour_")) in names:
        return lower
    if name.endswith("_init") and (call := _here(names, name[:-5])):
        return f'prepare("{call}", ...)'
    if name.startswith("I") and (call := _here(names, name[1:].capitalize())):
        return call[:-1] + ", async_op=True)" if call.endswith(")") else f"{call}(..., async_op=True)"
    if name.endswith("v") and (call := _here(names, name[:-1])):
        return f"{call}(..., counts=counts)"
    return None
