"""How a running job stands: asks its processes, finds out why it does not go on, and writes that down."""
