"""How processes become ranks: launchers, the rendezvous, and workers on this machine."""
