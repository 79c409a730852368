"""Speed and memory of contig, compared with peers that are measured in the same run."""
