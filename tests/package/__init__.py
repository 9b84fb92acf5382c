"""The package as a whole: structure, public names, distribution, and modules of the top level."""
