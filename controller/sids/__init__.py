"""Static SIDs and planned addresses of a fabric whose packets name their paths, in the words of other systems."""
