"""What every compiled kernel of ours shares: a cache on disk that is never a reason to fail."""
