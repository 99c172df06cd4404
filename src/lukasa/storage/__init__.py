"""Storage: the engine contract and its implementations, file stores, archives."""
