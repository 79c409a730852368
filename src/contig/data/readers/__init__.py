"""Event streams from files and tables: Parquet, CSV, TSV, JODIE, SNAP and anything that speaks Arrow.

Columns are found by name, whatever their case; where several would do, the first in these lists wins:

- source: src, source, user, u, from, sender, each also with id or _id behind it;
- destination: dst, destination, target, item, i, to, receiver, recipient, likewise;
- time: t, ts, time, timestamp, datetime, date, unixtime, unix_time, event_time;
- label: label, state_label, y;
- features: a list column called features, edge_features or msg; else the numbered columns in their
  order (f1, f_2, feat0, feature_3, edge_feat_4).

Refusals name the place of the first fault: in text files the line, counted from 1 as editors do; in
Parquet files and tables the row, counted from 0 as dataframes do.
"""

from contig.data.readers.streams import read_events, require_features

__all__ = ["read_events", "require_features"]
