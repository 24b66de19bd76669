"""What a data process keeps between packets, in every program: accounts, fragments, rate limits, rings of records."""
