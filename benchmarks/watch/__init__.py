"""A watch over the cost of the compiled core, in instructions per message."""
