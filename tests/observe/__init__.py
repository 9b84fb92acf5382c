"""The hooks that see every operation."""
