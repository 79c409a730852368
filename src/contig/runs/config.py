"""The config of a run: everything that determines its numbers, in one typed tree."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch

from contig.data.cuts import DEFAULT_SPLIT, parse_split, split_text
from contig.data.encoding import FeaturePlans
from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError, unknown
from contig.history import TimeScale
from contig.history.columns import as_tensor
from contig.models import DataShape, Model, create_model, model_class, model_name
from contig.models.contract import Pairs
from contig.options import as_dict, set_options
from contig.runs.options import TrainOptions


@dataclass(frozen=True)
class RunConfig:
    """A model, its options, and those of its training."""

    model: str
    model_options: Any
    train: TrainOptions

    @classmethod
    def of(cls, model: str | type[Model], settings: Mapping[str, Any] | None = None) -> RunConfig:
        """Apply ``settings`` to the defaults of a model; a key names an option of the model or its training.

        A model may have defaults of its own for the training.
        """
        model = model_name(model)
        kind = model_class(model)
        options, train = kind.options(), set_options(TrainOptions(), kind.training_defaults)
        ours = {f.name for f in fields(TrainOptions)}
        theirs = {f.name for f in fields(options)}
        if taken := sorted(theirs & (ours | {f.name for f in fields(ReadOptions)})):
            raise ConfigError(
                f"{model}: its option {taken[0]} has the name of another option of fit; rename it."
            )
        given = dict(settings or {})
        for name in given:
            if name not in ours | theirs:
                raise ConfigError(_unknown_option(name, ours | theirs, model))
        if "split" in given:
            given["split"] = split_text(given["split"])
        train = set_options(train, {k: v for k, v in given.items() if k in ours})
        parse_split(train.split)
        _check_final(train, learns=kind.learns, epochs_given="epochs" in given)
        return cls(
            model=model,
            model_options=set_options(options, {k: v for k, v in given.items() if k in theirs}),
            train=train,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; ``of(model, options | train)`` is the same config again."""
        return {"model": self.model, "options": as_dict(self.model_options), "train": as_dict(self.train)}

    def with_train(self, **changes: Any) -> RunConfig:
        """Return the same config with some training options changed."""
        return dataclasses.replace(self, train=set_options(self.train, changes))

    def for_stream(self, stream: EventStream) -> RunConfig:
        """Return the same config with the choices made that depend on the stream."""
        config = self.with_train(holdout=self.train.holdout_of(stream))

        def training_events() -> Pairs:
            train = config.train.split_stream(stream).train
            return Pairs(stream.src[train], stream.dst[train])

        options = model_class(self.model).settled(self.model_options, training_events)
        return dataclasses.replace(config, model_options=options)


def _check_final(train: TrainOptions, *, learns: bool, epochs_given: bool) -> None:
    if not train.final:
        return
    if train.split != DEFAULT_SPLIT:
        raise ConfigError(
            f"final=true and split={train.split}: a final training learns from every event; leave out one of "
            "the two."
        )
    if learns and not epochs_given:
        raise ConfigError(
            "final=true needs a number of epochs, such as epochs=10 (--epochs 10): without validation events "
            "nothing says when to stop. The best epoch of a training with validation is a good choice."
        )


# What other libraries call the same options, and the roles of columns.
OTHER_NAMES = {
    "learning_rate": "lr",
    "num_epochs": "epochs",
    "random_state": "seed",
    "hidden_dim": "dim",
    "embedding_dim": "dim",
}
COLUMN_ROLES = {"source", "sources", "destination", "target", "time", "times", "timestamp", "labels"}


def _unknown_option(name: str, known: set[str], model: str) -> str:
    where = f"of {model} and its training"
    if name in COLUMN_ROLES:
        return (
            f"Unknown option {name!r} {where}. Name columns with src, dst, t, label and features "
            "(--src, --dst, --time, --label, --features)."
        )
    if (other := OTHER_NAMES.get(name)) in known:
        return f"Unknown option {name!r} {where}. Did you mean {other!r}? 'contig models {model}' lists all."
    return f"{unknown('option', name, known, where)} 'contig models {model}' describes them."


def build_model(
    config: RunConfig,
    stream: EventStream,
    time_scale: TimeScale | None = None,
    features: FeaturePlans | None = None,
) -> Model:
    """Create the model for the widths of this stream, with initial weights.

    ``time_scale`` is that of the training events; trained weights, loaded afterwards, contain it.
    ``features`` say how features were encoded, which those of nodes that appear later are too.
    """
    given, unknown = stream.node_features, None if features is None else features.new_node
    nodes = None if given is None else as_tensor(given)
    new_node = None if unknown is None else torch.from_numpy(unknown)
    shape = DataShape(stream.edge_width, nodes, stream.num_nodes, time_scale or TimeScale(), new_node)
    return create_model(model_class(config.model), config.model_options, shape)
