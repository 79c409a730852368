"""The gated ODE of rows that are driven by the rows they are linked with, which move by themselves.

A linked row has the series ``c_m`` of ``contig.kernels.forced_series`` without forcing. A row of interest is
forced by ``f_m``, the weighted sum of the ``c_m`` of its links, and its series is summed at one point.
"""

from __future__ import annotations

from torch import Tensor

from contig.kernels.dispatch import backend
from contig.kernels.forced_series import SeriesSettings, forced_series, forced_value
from contig.kernels.weighted_rows import weighted_rows


def linked_flow(
    x: Tensor, gates: Tensor, own: Tensor, linked: Tensor, weight: Tensor, settings: SeriesSettings, at: float
) -> Tensor:
    """Return the values ``[n, d]`` of rows ``own`` at ``at``, each driven by its rows ``linked``.

    ``x`` ``[rows, d]`` are the initial states, ``gates`` ``[rows, 3 d]`` the gates of the latest, the
    neighbor and the inherent factor; ``own`` is ``[n]``, ``linked`` and ``weight`` are ``[n, slots]``.
    A slot of weight 0 is not read. No gradient flows to the weights.
    """
    if backend(x.device) == "numba":
        from contig.kernels.cpu import linked_flow as loops

        return loops.linked_flow(x, gates, own, linked, weight, settings, at)
    outer = settings._replace(terms=settings.terms - 1)
    series = forced_series(x, gates, None, outer)
    forcing = weighted_rows(series.flatten(1), linked, weight).unflatten(1, series.shape[1:])
    return forced_value(x.index_select(0, own), gates.index_select(0, own), forcing, settings, at)
