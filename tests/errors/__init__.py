"""The error classes and the table of the server's error codes."""
