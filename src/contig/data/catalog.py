"""Descriptions of datasets: where each comes from, how it is read, and what it must contain.

A dataset from outside the package is added with ``register_dataset``, or by an installed package's
entry point in the group ``contig.datasets`` that names a ``Dataset``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.data.shop import shop, shop_table
from contig.data.synthetic import synthetic
from contig.errors import ConfigError
from contig.registry import Registry

if TYPE_CHECKING:
    import pyarrow as pa

SHOP_ORDERS = 20_000


@dataclass(frozen=True)
class Dataset:
    """A stream that can be loaded by name: a file, or a function that generates the stream.

    Only ``name`` and one of ``filename`` and ``generate`` are required. Numbers that are given are checked
    against the file.
    """

    name: str = ""
    description: str = ""
    source: str = ""
    """Who published it, and where."""
    filename: str | None = None
    """The file's name in the data folder, or its absolute path."""
    url: str | None = None
    """Where the file is downloaded from; None if that takes manual steps (see ``instructions``)."""
    instructions: str = ""
    """How to obtain a file that cannot be downloaded directly."""
    generate: Callable[[str], EventStream] | None = None
    """Makes the stream from the text after the colon in ``NAME:TEXT``; empty if there is none."""
    table: Callable[[str], pa.Table] | None = None
    """Makes the table that a generated stream is read from, to be written to a file."""
    reading: ReadOptions = ReadOptions()
    """How the published file is read. A file ``NAME.parquet`` has standard column names instead."""
    events: int | None = None
    nodes: int | None = None
    bipartite: bool | None = None
    edge_width: int = 0
    """The number of features per event in the published file."""
    labels: bool = True
    """Whether the labels mean anything; if not, they are dropped."""
    features: bool = True
    """Whether edge features are loaded by default."""
    companion: str | None = None
    """An .npz file next to ``NAME.parquet`` with the features of its rows."""
    fingerprint: str | None = None
    """``EventStream.fingerprint`` of the events alone: times from 0, no features."""

    @property
    def published(self) -> bool:
        """Whether the dataset is published elsewhere, so that a file can differ from the original."""
        return self.url is not None or bool(self.instructions)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ConfigError(f"name={self.name!r}: a dataset needs a name, such as 'visits'.")
        if (self.filename is None) == (self.generate is None):
            raise ConfigError(f"Dataset {self.name!r} needs either filename= or generate=.")


def _check(name: str, found: Any) -> None:
    if not isinstance(found, Dataset):
        raise ConfigError(
            f"The dataset {name!r} is of type {type(found).__name__}; expected a contig.Dataset."
        )
    if found.name != name and ":" not in name:
        raise ConfigError(
            f"The dataset {found.name!r} is registered as {name!r}; use the same name for both."
        )


DATASETS: Registry[Dataset] = Registry("dataset", {}, "contig.datasets", _check)


def register_dataset(dataset: Dataset, *, replace: bool = False) -> None:
    """Make a dataset available by its name, wherever a file or a dataset is expected."""
    if not isinstance(dataset, Dataset):
        raise ConfigError(f"{dataset!r} is not a dataset; expected a contig.Dataset.")
    DATASETS.register(dataset.name, dataset, replace=replace)


# --- the built-in datasets ---------------------------------------------------------------------------


def _jodie(name: str, description: str, events: int, nodes: int, **more: Any) -> Dataset:
    return Dataset(
        name=name,
        description=description,
        source="SNAP, Stanford: Kumar, Zhang and Leskovec, JODIE, KDD 2019; https://snap.stanford.edu/jodie/",
        filename=f"{name}.csv",
        url=f"https://snap.stanford.edu/jodie/{name}.csv",
        reading=ReadOptions(format="jodie"),
        events=events,
        nodes=nodes,
        bipartite=True,
        **more,
    )


def _synthetic(size: str) -> EventStream:
    """Generate a synthetic stream of that many events, 100,000 by default."""
    return synthetic(_size("synthetic", size, 100_000))


def _size(name: str, given: str, default: int) -> int:
    """Return the number of events after the colon of ``NAME:EVENTS``."""
    if not given:
        return default
    if not re.fullmatch(r"\d+(_\d+)*", given):
        raise ConfigError(
            f"'{name}:{given}': {given!r} is not a number of events; use for instance '{name}:5000'."
        )
    return int(given)


def _shop(name: str, description: str, nodes: int, *, ring: bool) -> Dataset:
    return Dataset(
        name=name,
        description=f"{description}; {name}:200000 for more orders",
        source="contig.shop",
        generate=lambda size: shop(_size(name, size, SHOP_ORDERS), ring=ring),
        table=lambda size: shop_table(_size(name, size, SHOP_ORDERS), ring=ring),
        events=SHOP_ORDERS,
        nodes=nodes,
        bipartite=True,
        edge_width=3,
    )


_BUILT_IN = (
    _jodie(
        "wikipedia",
        "edits of pages by users over 30 days; label: the user gets banned",
        157_474,
        8_227 + 1_000,
        edge_width=172,
        fingerprint="07a1467d589fa63665b4d7d9dbf50a539618f9ef37a2bd7a55852c05c56487a0",
    ),
    _jodie(
        "reddit",
        "posts of users in subreddits over 30 days; label: the user gets banned",
        672_447,
        10_984,
        edge_width=172,
    ),
    _jodie(
        "mooc",
        "actions of students on course items over 30 days; label: the student drops out",
        411_749,
        7_047 + 97,
        edge_width=4,
        features=False,
        companion="mooc_edge_feat_codebook.npz",
        fingerprint="7a040ad8df05a58fc92b0b36298c526615685eb7b54ad003887ea325929c9538",
    ),
    _jodie(
        "lastfm",
        "songs that listeners play; all labels and features are 0",
        1_293_103,
        980 + 1_000,
        edge_width=2,
    ),
    Dataset(
        name="collegemsg",
        description="messages between students over 193 days; also known as UCI",
        source="SNAP, Stanford: Panzarasa, Opsahl and Carley, JASIST 2009; "
        "https://snap.stanford.edu/data/CollegeMsg.html",
        filename="CollegeMsg.txt.gz",
        url="https://snap.stanford.edu/data/CollegeMsg.txt.gz",
        reading=ReadOptions(format="snap"),
        events=59_835,
        nodes=1_899,
        bipartite=False,
        labels=False,
        fingerprint="b8304f8e9572488802a749feae3418c0576d6f610e851fe8560d53fe66d08a43",
    ),
    Dataset(
        name="email_eu",
        description="e-mails within a European research institution over 803 days",
        source="SNAP, Stanford: Paranjape, Benson and Leskovec, WSDM 2017; "
        "https://snap.stanford.edu/data/email-Eu-core-temporal.html",
        filename="email-Eu-core-temporal.txt.gz",
        url="https://snap.stanford.edu/data/email-Eu-core-temporal.txt.gz",
        reading=ReadOptions(format="snap"),
        events=332_334,
        nodes=986,
        bipartite=False,
        labels=False,
    ),
    Dataset(
        name="bitcoin_otc",
        description="ratings (-10 to 10, the edge feature) of traders by traders; each pair occurs once",
        source="SNAP, Stanford: Kumar, Spezzano, Subrahmanian and Faloutsos, ICDM 2016; "
        "https://snap.stanford.edu/data/soc-sign-bitcoin-otc.html",
        filename="soc-sign-bitcoinotc.csv.gz",
        url="https://snap.stanford.edu/data/soc-sign-bitcoinotc.csv.gz",
        reading=ReadOptions(format="csv", src=0, dst=1, features=(2,), t=3),
        events=35_592,
        nodes=5_881,
        bipartite=False,
        edge_width=1,
        labels=False,
        companion="bitcoin_otc_rating.npz",
    ),
    Dataset(
        name="enron",
        description="e-mails within the Enron company over 3 years, many at equal times",
        source="Poursafaei, Huang, Pelrine and Rabbany, NeurIPS 2022 (Datasets and Benchmarks); "
        "https://zenodo.org/records/7213796",
        filename="ml_enron.csv",
        instructions="Extract ml_enron.csv from enron.zip at https://zenodo.org/records/7213796",
        reading=ReadOptions(format="csv", src="u", dst="i", t="ts"),
        events=125_235,
        nodes=184,
        bipartite=False,
        labels=False,
    ),
    Dataset(
        name="tgbl-wiki",
        description="the events of wikipedia as the Temporal Graph Benchmark publishes them",
        source="TGB: Huang et al., NeurIPS 2023 (Datasets and Benchmarks); https://tgb.complexdatalab.com",
        filename="tgbl-wiki_edgelist_v2.csv",
        instructions="Extract tgbl-wiki_edgelist_v2.csv from tgbl-wiki-v2.zip at https://tgb.complexdatalab.com",
        reading=ReadOptions(format="jodie"),
        events=157_474,
        nodes=8_227 + 1_000,
        bipartite=True,
        edge_width=172,
        labels=False,
    ),
    Dataset(
        name="synthetic",
        description="a seeded stream that behaves like real ones; synthetic:1000000 for a million events",
        source="contig.synthetic",
        generate=_synthetic,
        events=100_000,
        nodes=6_000,
        bipartite=True,
    ),
    _shop("shop", "a seeded log of orders with prices; label: fraud", 2_250, ring=False),
    _shop("shop-ring", "the same with a ring of fraudulent accounts", 2_250, ring=True),
)
for _dataset in _BUILT_IN:
    register_dataset(_dataset)
