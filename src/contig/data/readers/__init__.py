"""Event streams from files (Parquet, CSV, TSV, JSON lines, JODIE, SNAP, DyGLib), tables and graphs.

Columns are recognized by name, whatever their case; if several match, the first in these lists is used:

- source: src, source, user, u, from, sender, each also followed by id or _id; sources;
- destination: dst, destination, target, item, i, to, receiver, recipient, likewise; destinations;
- time: t, ts, time, timestamp, datetime, date, unixtime, unix_time, event_time, timestamps;
- label: label, state_label, y;
- features: a list column called features, edge_features, edge_feat or msg; otherwise the numbered columns
  in their order (f1, f_2, feat0, feature_3, edge_feat_4).

Error messages name the place of the first bad value: in text files the line, counted from 1 as editors
do; in Parquet files and tables the row, counted from 0 as dataframes do.
"""

from contig.data.readers.opened import OpenedTable
from contig.data.readers.registry import READERS, Reader, register_reader
from contig.data.readers.streams import PairTable, read_events, read_pairs, require_features

__all__ = [
    "READERS",
    "OpenedTable",
    "PairTable",
    "Reader",
    "read_events",
    "read_pairs",
    "register_reader",
    "require_features",
]
