"""Files and folders below the store: whole writes, locks, the check of a manifest, the cache."""
