"""The demo's picture: throughput and lag over time, with the crash marked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kfetch_jobs.demo.curve import Curves

_INK = "#1f2933"
_FAINT = "#7b8794"
_PRODUCED = "#52606d"
_LANDED = "#2186eb"
_LAG = "#de911d"
_KILLED = "#cf1124"


def draw(curves: Curves, title: str, path: Path) -> None:
    """Write the curves as a PNG to ``path``, and make its directory if it is missing."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # No pyplot: pyplot looks for a screen and keeps each figure for ever.
    figure = Figure(figsize=(11, 6.5), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold", color=_INK)
    _throughput(above, curves)
    _lag(below, curves)
    for axes in (above, below):
        _crash(axes, curves)
        _style_axes(axes)
    _label_crash(above, curves)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _throughput(axes: Any, curves: Curves) -> None:
    for interval in curves.landed:
        axes.fill_between(
            [interval.start, interval.end], interval.rate, color=_LANDED, alpha=0.75, linewidth=0
        )
    edges = [curves.produced[0].start, *(interval.end for interval in curves.produced)]
    rates = [interval.rate for interval in curves.produced]
    axes.stairs(rates, edges, color=_PRODUCED, linewidth=1.8, label="produced to Kafka")
    axes.fill_between([], [], color=_LANDED, alpha=0.75, label="landed in Delta")
    axes.set_ylabel("rows per second")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False, ncols=2, labelcolor=_INK)
    axes.set_ylim(0, 1.2 * max([*rates, *(interval.rate for interval in curves.landed), 1]))


def _lag(axes: Any, curves: Curves) -> None:
    times, lags = zip(*curves.lag, strict=True)
    axes.plot(times, lags, color=_LAG, linewidth=1.8)
    axes.fill_between(times, lags, color=_LAG, alpha=0.2, linewidth=0)
    axes.set_ylabel("lag in records")
    axes.set_xlabel("seconds since the first event")
    axes.set_ylim(0, 1.1 * max([*lags, 1]))


def _crash(axes: Any, curves: Curves) -> None:
    axes.axvspan(curves.killed, curves.recovered, color=_KILLED, alpha=0.07, linewidth=0)
    axes.axvline(curves.killed, color=_KILLED, linewidth=1.6)
    axes.axvline(curves.restarted, color=_KILLED, linewidth=1.2, linestyle=(0, (3, 2)))


def _label_crash(axes: Any, curves: Curves) -> None:
    across = axes.get_xaxis_transform()
    style = {"transform": across, "fontsize": 9, "color": _KILLED, "va": "top"}
    axes.text(curves.killed, 0.97, "SIGKILL ", ha="right", **style)
    axes.text(curves.restarted, 0.97, " restart", ha="left", **style)


def _style_axes(axes: Any) -> None:
    from matplotlib.ticker import StrMethodFormatter

    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.grid(axis="y", color="#e4e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.margins(x=0.01)
    axes.tick_params(colors=_FAINT, labelcolor=_INK, length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_FAINT)
