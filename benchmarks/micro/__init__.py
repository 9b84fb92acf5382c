"""What the compiled core costs by itself: no socket, no server, no second thread."""
