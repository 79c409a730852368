"""Training a model on a stream, and resuming an interrupted training."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from contig import __version__
from contig.data.datasets import open_stream
from contig.data.encoding import FeaturePlans
from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError, RunError
from contig.files import as_path
from contig.kernels.devices import pick_device
from contig.models import DEFAULT_MODEL, Model, model_class
from contig.options import check_flag
from contig.progress import Display
from contig.ranks import Ranks, ranks, restarted
from contig.runs.config import RunConfig
from contig.runs.folder import RunFolder
from contig.runs.options import MONITORS
from contig.runs.run import Run
from contig.streaming.sharded import StateLayout, checked_layout
from contig.training import loop
from contig.training.advice import before_training, on_repeated_rows
from contig.training.callbacks import Callback, Callbacks
from contig.training.interruption import Interrupted
from contig.training.loop import train, training_is_over
from contig.training.memory_usage import PeakMeter
from contig.training.preparation import prepare
from contig.training.session import Session
from contig.training.trackers import make_trackers
from contig.wording import counted

__all__ = ["Interrupted", "fit", "resume"]

log = logging.getLogger("contig")

RESUMABLE = ("epochs", "patience", "checkpoint_seconds")  # options that may change when a run is resumed


def fit(
    data: Any,
    model: str | type[Model] = DEFAULT_MODEL,
    *,
    out: str | Path | None = None,
    device: str = "auto",
    show: bool | None = None,
    track: str | Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    overwrite: bool = False,
    state: str = "replicated",
    **settings: Any,
) -> Run:
    """Train ``model`` on events and return the finished run.

    ``model`` is a name (see ``contig models``), ``package.module:Class`` or a subclass of ``contig.Model``.
    ``data`` is an ``EventStream``, a file, the name of a dataset, or a table (a pandas or polars frame, a
    pyarrow table). ``settings`` are options of the model or of the training (``epochs=10, dim=64``), and
    the fields of ``ReadOptions`` (``src="who"``) for a file or a table. ``split`` is two shares of the events
    or two times (``split=("2024-05-01", "2024-06-01")``: where validation and test begin); ``final=True``
    learns from every event, for ``epochs`` epochs. The run is saved in the folder
    ``out`` (a temporary one by default), where ``overwrite`` replaces an earlier run. A training that fails
    before its first checkpoint leaves nothing there. ``show`` turns progress on or off (on by default where
    stderr is a terminal). ``track`` names trackers: tensorboard, mlflow or wandb. ``callbacks`` are objects
    of subclasses of ``contig.Callback``. ``state="sharded"`` divides the node state among the ranks of
    ``torchrun``; the numbers are the same. ``run.notices`` has the hints that the command line prints.
    """
    check_flag("show", show)
    here = ranks()
    layout = _layout(state, here)
    reading, settings = ReadOptions.take(settings)
    config = RunConfig.of(model, settings)
    chosen = pick_device(device)
    if out is not None and restarted():
        data, reading = _read(data, reading), ReadOptions()
        found = here.shared(_checkpoint_of(RunFolder(out), data, config) if here.first else None)
        if found == "own":
            return resume(out, device=device, show=show, track=track, callbacks=callbacks, state=state)
        if found is not None and not overwrite:
            raise RunError(found)
    watchers = _watchers(here, track, callbacks)
    folder = _folder(here, out, model_class(config.model).name)
    if not overwrite:
        folder.must_be_free()
    with folder.locked():
        if not overwrite:
            folder.must_be_free()
        stream = _read(data, reading)
        hints = on_repeated_rows(stream)
        return start(folder, stream, config, chosen, show=show, watchers=watchers, layout=layout, hints=hints)


def _layout(state: str, here: Ranks) -> StateLayout:
    layout = checked_layout(state)
    if layout == "sharded" and here.alone:
        log.warning(
            "--state sharded (state=) divides the node state among several processes, and there is one: it "
            "holds all of it. Start several with torchrun --nproc-per-node N -m contig train ..."
        )
    return layout


def _folder(here: Ranks, out: str | Path | None, name: str) -> RunFolder:
    """Return where a new run is saved; only the first rank keeps what it writes."""
    if not here.first:
        return RunFolder(here.temporary_folder())
    return RunFolder(tempfile.mkdtemp(prefix=f"contig-{name}-") if out is None else as_path(out, "out"))


def _checkpoint_of(folder: RunFolder, stream: EventStream, config: RunConfig) -> str | None:
    """Return "own" if a folder has a checkpoint of this training; what differs, if it is another's."""
    if not folder.has("checkpoint.pt"):
        return None
    manifest = folder.manifest()
    ours, theirs = config.for_stream(stream).as_dict(), manifest.config.as_dict()
    differ = [part for part in ours if ours[part] != theirs[part]]
    if len(stream) != manifest.data.events or (
        not (stream.edge_columns or stream.node_columns) and stream.fingerprint() != manifest.data.fingerprint
    ):
        differ.append("events")
    if not differ:
        return "own"
    return (
        f"{folder.path} holds another run, which the restarted ranks must not continue: its "
        f"{' and '.join(differ)} differ. Choose another folder, or replace the run with --overwrite."
    )


def start(
    folder: RunFolder,
    stream: EventStream,
    config: RunConfig,
    device: torch.device,
    *,
    show: bool | None = None,
    watchers: Callbacks | None = None,
    features: FeaturePlans | None = None,
    weights: Mapping[str, Tensor] | None = None,
    layout: StateLayout = "replicated",
    hints: Iterable[str] = (),
) -> Run:
    """Train a new run in a folder, which is locked and free or may be overwritten.

    ``features`` say how the features of the stream were encoded, if they were already. Training starts from
    ``weights``, by default from random ones. ``hints`` follow those about the training.
    """
    config = config.for_stream(stream)
    display = Display(show if ranks().first else False)
    memory = PeakMeter(device)
    with torch.random.fork_rng(devices=_cuda_devices(device)):
        session = Session(prepare(stream, config, device), config, layout)
        if weights is not None:
            load_known(session.model, weights)
        _check_agreement(session)
        if folder.has("config.json"):  # overwritten, or killed before its first checkpoint
            folder.remove_run()
        with _removed_on_failure(folder):
            folder.create(session.data.stream, config, features or session.data.features)
            for line in chain(before_training(session), hints):
                display.notice(line)
            run = train(session, folder, display, memory, watchers or Callbacks([]))
        run.notices = (*stream.notices, *run.notices)
        return run


def load_known(model: Model, weights: Mapping[str, Tensor]) -> None:
    """Load the weights of a model that knew fewer nodes: rows of later nodes keep their initial values."""
    grown = dict(model.state_dict())
    for name, old in weights.items():
        new = grown[name]
        if isinstance(old, Tensor) and old.shape != new.shape:
            known = len(old) - (name in model.blank_last)
            grown[name] = torch.cat([old[:known].to(new.device), new[known:]])
        else:
            grown[name] = old
    model.load_state_dict(grown)


@contextmanager
def _removed_on_failure(folder: RunFolder) -> Iterator[None]:
    """Free the folder if the training fails before there is anything to resume from."""
    try:
        yield
    except Exception:
        if not folder.has_results:
            folder.remove_run()
        raise


def _watchers(here: Ranks, track: str | Sequence[str], callbacks: Sequence[Callback]) -> Callbacks:
    """Return what watches the training; of several ranks only the first is watched."""
    return Callbacks([*make_trackers(track), *callbacks] if here.first else [])


def _check_agreement(session: Session) -> None:
    """Reject ranks with different events or options, which would wait for each other without end."""
    stream = session.data.stream
    ranks().check_agreement(
        {
            "version of contig": __version__,
            "number of events": len(stream),
            "checksum of the events": stream.fingerprint()[:12],
            "options": session.config.as_dict(),
            "layout of the node state (--state)": session.layout,
        }
    )


def _read(data: Any, reading: ReadOptions) -> EventStream:
    """Open ``data`` unless it is a stream already."""
    if not isinstance(data, EventStream):
        return open_stream(data, reading)
    if given := list(reading.as_dict()):
        raise ConfigError(
            f"{given[0]}=... is an option for reading files and tables; this is a stream already."
        )
    return data


def resume(
    path: str | Path,
    *,
    device: str = "auto",
    show: bool | None = None,
    track: str | Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    state: str = "replicated",
    **more: Any,
) -> Run:
    """Resume an interrupted run; on a CPU the result is bit-identical to an uninterrupted one.

    ``more`` may change ``epochs`` (to train a finished run for longer), ``patience`` and
    ``checkpoint_seconds``; options that decide the numbers cannot change. ``state`` is that of ``fit``.
    """
    check_flag("show", show)
    here = ranks()
    layout = _layout(state, here)
    watchers = _watchers(here, track, callbacks)
    folder = RunFolder(path)
    if fixed := [name for name in more if name not in RESUMABLE]:
        raise ConfigError(
            f"{fixed[0]} cannot change when a run is resumed; only {', '.join(RESUMABLE)} can. "
            "Train a new run instead."
        )
    if here.first:
        folder.config()  # refuses what is not a run before anything is written
    folder = _own_copy(folder, here)
    with folder.locked():
        config = folder.config().with_train(**more)
        chosen = pick_device(device)
        memory = PeakMeter(chosen)
        with torch.random.fork_rng(devices=_cuda_devices(chosen)):
            session = Session(prepare(folder.stream(), config, chosen), config, layout)
            _check_agreement(session)
            if folder.has("checkpoint.pt"):
                saved = folder.load("checkpoint.pt", mapped=session.state.on_disk)
                session.restore(saved, folder.path / "checkpoint.pt")
            if "epochs" in more and training_is_over(session):  # it had run out of patience and is extended
                session.progress.patience_from = session.progress.epoch
            folder.reopen(config)
            if training_is_over(session) and folder.is_finished and folder.has("serving.pt"):
                log.warning(_why_finished(session, folder))
                if session.model.learns and not folder.has("curve.png"):  # killed before it was drawn
                    loop.draw_curve(session, folder)
                return Run.open(folder.path, chosen)
            if not training_is_over(session):
                folder.remove_results()
            return train(session, folder, Display(show if here.first else False), memory, watchers)


def _own_copy(folder: RunFolder, here: Ranks) -> RunFolder:
    """Return the folder for the first rank, and for each other one a copy of its files to work on."""
    files = here.shared(_contents(folder.path) if here.first and not here.alone else {})
    if here.first:
        return folder
    own = here.temporary_folder()
    for name, content in files.items():
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_bytes(content)
    return RunFolder(own)


def _contents(path: Path) -> dict[str, bytes]:
    return {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()}


def _why_finished(session: Session, folder: RunFolder) -> str:
    progress, options = session.progress, session.config.train
    if not session.model.learns:
        return f"{folder.path} is finished: {session.config.model} has nothing to train."
    why, best = "the limit", f"; the best was epoch {progress.best_epoch}"
    if progress.epoch < options.epochs:
        why = f"no better validation {MONITORS[options.monitor]} for {counted(options.patience, 'epoch')}"
    trained = counted(progress.epoch, "epoch")
    return (
        f"{folder.path} is finished after {trained} ({why}){'' if options.final else best}. "
        f"To train longer: contig resume {folder.path} --epochs {2 * progress.epoch}"
    )


def _cuda_devices(device: torch.device) -> list[torch.device]:
    return [device] if device.type == "cuda" else []
