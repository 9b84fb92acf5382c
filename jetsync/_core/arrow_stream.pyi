"""One Arrow array as a stream of one batch (Arrow C stream interface)."""
