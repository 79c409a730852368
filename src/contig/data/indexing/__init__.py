"""From Parquet files of any size to the columns of a stream on disk, in bounded memory."""
