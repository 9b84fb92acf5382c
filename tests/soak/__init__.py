"""The long form of the tests, in parts of at most ninety minutes, and the page of its figures."""
