"""Systems of several servers, accounts and domains, changed while clients publish and read."""
