"""Services: what they answer, count and say of themselves."""
