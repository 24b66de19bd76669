"""`heddle demo --spray`: the same packets over planned sets of paths, random ones, one path, and as ECMP hashes."""
