"""The page's plots, as SVG. Without matplotlib there are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.macro.figures import Table, cpu, growth_points, rate
from benchmarks.macro.workloads import GROWTH, PLAIN, SIZES

COLOURS = {
    "raw": "#9a9a9a", "jetsync": "#0b7a75", "nats_c": "#7a5c99", "nats_py": "#d1495b",
    "natsio": "#edae49", "natsrpy": "#5f8dd3",
}  # fmt: skip


def draw(result: dict[str, Any], folder: Path) -> dict[str, str]:
    """Draw into ``folder``; returns the names of the plots and what each shows."""
    try:
        import matplotlib as mpl
    except ImportError:
        return {}
    mpl.use("svg")
    # The same results give the same file.
    mpl.rcParams["svg.hashsalt"] = "jetsync"
    mpl.rcParams["svg.fonttype"] = "none"  # letters, not outlines: a third of the size
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {
        "front": _front(result, folder / "front.svg"),
        "cpu": _bars(result, folder / "cpu.svg"),
        "sizes": _sizes(result, folder / "sizes.svg"),
        "growth": _growth(result, folder / "growth.svg"),
    }
    return {name: text for name, text in drawn.items() if text}


def _save(figure: Any, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


FRONT = {
    "js_publish": "publish, confirmed",
    "fetch_ack": "fetch and acknowledge",
    "ordered": "iterate in order",
    "request": "request and reply",
}


def _front(result: dict[str, Any], path: Path) -> str:
    """The picture of the README: few workloads, each client a bar, longer is better."""
    import matplotlib.pyplot as plt

    table = Table(result["rows"])
    clients = [peer for peer in COLOURS if peer != "raw"]
    found = {
        name: {p: 1e3 / f.median for p in clients if (f := table.figure(cpu, name, p))}
        for name in FRONT
    }
    if not all("jetsync" in values for values in found.values()):
        return ""
    figure, grid = plt.subplots(2, 2, figsize=(8, 4.2))
    for axes, (name, values) in zip(grid.flat, found.items(), strict=True):
        bars = axes.barh([*values], [*values.values()], color=[COLOURS[p] for p in values])
        axes.bar_label(bars, [f" {v:,.0f}" for v in values.values()], fontsize=8)
        axes.invert_yaxis()
        axes.set_title(FRONT[name], fontsize=10, loc="left")
        axes.set_xlim(right=1.2 * max(values.values()))
        axes.xaxis.set_visible(False)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        axes.tick_params(axis="y", labelsize=8, length=0)
    figure.suptitle("Thousand messages of 128 B per CPU second of the client", fontsize=10)
    _save(figure, path)
    return "Messages per CPU second of each client, for four kinds of work"


def _bars(result: dict[str, Any], path: Path) -> str:
    import matplotlib.pyplot as plt

    table = Table(result["rows"])
    names = [w.name for w in PLAIN if w.name != "memory" and table.figure(cpu, w.name, "jetsync")]
    if not names:
        return ""
    figure, axes = plt.subplots(figsize=(8, 0.32 * len(names) + 1.2))
    for peer, colour in COLOURS.items():
        points = [(n, f.median) for n, name in enumerate(names)
                  if (f := table.figure(cpu, name, peer))]  # fmt: skip
        if points:
            axes.plot(
                [value for _, value in points],
                [n for n, _ in points],
                "o",
                color=colour,
                label=peer,
            )
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("CPU seconds of the client per million messages of 128 B (left is better)")
    axes.grid(axis="both", alpha=0.3)
    axes.legend(loc="upper right", fontsize=8)
    _save(figure, path)
    return "CPU per million messages, each client and workload"


def _sizes(result: dict[str, Any], path: Path) -> str:
    import matplotlib.pyplot as plt

    table = Table(result["rows"])
    shown = [
        name
        for name in ("publish", "sub_callback", "js_many", "fetch", "messages", "push")
        if sum(table.figure(cpu, name, "jetsync", size) is not None for size in SIZES) > 1
    ]
    if not shown:
        return ""
    figure, grid = plt.subplots(1, len(shown), figsize=(3 * len(shown), 3), squeeze=False)
    for axes, name in zip(grid[0], shown, strict=True):
        for peer, colour in COLOURS.items():
            points = [(s, f.median) for s in SIZES if (f := table.figure(rate, name, peer, s))]
            if points:
                axes.plot([s for s, _ in points], [v for _, v in points], "o-", color=colour,
                          label=peer, markersize=3)  # fmt: skip
        axes.set(title=name, xscale="log", yscale="log", xlabel="bytes")
        axes.grid(alpha=0.3)
    grid[0][0].set_ylabel("messages per second")
    grid[0][0].legend(fontsize=7)
    _save(figure, path)
    return "Messages per second by size"


def _growth(result: dict[str, Any], path: Path) -> str:
    import matplotlib.pyplot as plt

    found = {name: points for name in GROWTH if (points := growth_points(result, name))}
    if not found:
        return ""
    across = min(4, len(found))
    down = -(-len(found) // across)
    figure, grid = plt.subplots(down, across, figsize=(3 * across, 2.6 * down), squeeze=False)
    cells = [axes for row in grid for axes in row]
    for axes in cells[len(found) :]:
        axes.axis("off")
    for axes, (name, points) in zip(cells, found.items(), strict=False):
        middles = [figure_.median for figure_ in points.values()]
        below = [f.median - f.low for f in points.values()]
        above = [f.high - f.median for f in points.values()]
        axes.errorbar([*points], middles, yerr=[below, above], fmt="o-", markersize=3,
                      color=COLOURS["jetsync"], capsize=2)  # fmt: skip
        axes.set(title=name, xscale="log", xlabel=GROWTH[name].axis, ylabel=GROWTH[name].unit)
        axes.yaxis.label.set_size(7)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    _save(figure, path)
    return "How the cost grows"
