"""How fast contig is, as ratios against peers that are measured in the same run."""
