"""The testing kit that users install."""
