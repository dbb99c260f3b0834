# SPDX-License-Identifier: MIT OR Apache-2.0
"""Charts of the figures, as SVG."""

import math
from xml.sax.saxutils import escape

from runner.benches import BENCHES
from runner.table import number


# The charts. Bars have a logarithmic scale, because the figures span three orders of magnitude; whiskers are min and
# max.

BAR_HEIGHT, GROUP_GAP, LABEL_WIDTH, PLOT_WIDTH, VALUE_WIDTH, TOP = 16, 30, 120, 520, 150, 64
COLOURS = {"bare": "#7f7f7f", "epoll": "#7f7f7f", "nginx": "#7f7f7f", "fiberrt": "#d1495b"}
PEER_COLOUR = "#66a3c2"


def draw(bench, rows, path):
    groups = {}
    for row in rows:
        groups.setdefault(row["shape"], []).append(row)
    low = 10 ** math.floor(math.log10(min(row["min"] for row in rows) * 0.999))
    high = 10 ** math.ceil(math.log10(max(row["max"] for row in rows) * 1.001))

    def x_of(value):
        return LABEL_WIDTH + PLOT_WIDTH * math.log(value / low) / math.log(high / low)

    parts = []
    y = TOP
    for shape, group in groups.items():
        parts.append(f'<text x="8" y="{y + 13}" font-weight="bold">{escape(shape)}</text>')
        y += 20
        for row in group:
            middle, x = y + BAR_HEIGHT / 2, x_of(row["median"])
            label = number(row["median"]) + ("" if row["ratio"] is None else f'  ({row["ratio"]:.2f}\u00d7)')
            parts.append(
                f'<text x="{LABEL_WIDTH - 6}" y="{middle + 4}" text-anchor="end">{escape(row["subject"])}</text>'
                f'<rect x="{LABEL_WIDTH}" y="{y + 2}" width="{max(x - LABEL_WIDTH, 1):.1f}" height="{BAR_HEIGHT - 4}"'
                f' fill="{COLOURS.get(row["subject"], PEER_COLOUR)}"/>'
                f'<path d="M{x_of(row["min"]):.1f} {middle}H{x_of(row["max"]):.1f}" stroke="#222"/>'
                f'<text x="{max(x, x_of(row["max"])) + 6:.1f}" y="{middle + 4}">{label}</text>')
            y += BAR_HEIGHT
        y += GROUP_GAP - 20
    grid = []
    value = low
    while value <= high * 1.001:
        grid.append(f'<path d="M{x_of(value):.1f} {TOP - 6}V{y}" stroke="#ddd"/>'
                    f'<text x="{x_of(value):.1f}" y="{TOP - 10}" text-anchor="middle" fill="#666">{value:g}</text>')
        value *= 10
    width, height = LABEL_WIDTH + PLOT_WIDTH + VALUE_WIDTH, y + 8
    versus = BENCHES[bench].yardstick
    subtitle = "medians of one run, lines from min to max; logarithmic scale" + (
        f"; (\u00d7 {versus} of the same shape)" if versus else "")
    write_svg(path, bench, subtitle, width, height, grid + parts)


def write_svg(path, bench, subtitle, width, height, parts):
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        f' font-family="sans-serif" font-size="12">\n<rect width="{width}" height="{height}" fill="#fff"/>\n'
        f'<text x="8" y="22" font-size="16" font-weight="bold">{escape(bench)}: {escape(BENCHES[bench].unit)}</text>\n'
        f'<text x="8" y="40" fill="#666">{escape(subtitle)}</text>\n' + "\n".join(parts) + "\n</svg>\n",
        encoding="utf-8")


CURVE_WIDTH, CURVE_HEIGHT, CURVE_LEFT = 560, 340, 60
CURVE_COLOURS = ("#66a3c2", "#2a6f4e", "#e0a030", "#8a5fa8", "#3b3b9a")  # of the peers, in the order of the rows


def draw_curve(bench, rows, path):
    """Draws a line per subject over the shapes, which are numbers; both scales are logarithmic."""
    lines = {}
    for row in rows:
        lines.setdefault(row["subject"], []).append((int(row["shape"]), row["median"]))
    xs = [x for line in lines.values() for x, _ in line]
    ys = [y for line in lines.values() for _, y in line]
    left, right = math.floor(math.log10(min(xs))), max(math.ceil(math.log10(max(xs))), math.log10(min(xs)) + 1)
    low, high = math.floor(math.log10(min(ys) * 0.999)), math.ceil(math.log10(max(ys) * 1.001))

    def x_of(value):
        return CURVE_LEFT + CURVE_WIDTH * (math.log10(value) - left) / (right - left)

    def y_of(value):
        return TOP + CURVE_HEIGHT * (high - math.log10(value)) / (high - low)

    parts = []
    for power in range(low, high + 1):
        y = y_of(10 ** power)
        parts.append(f'<path d="M{CURVE_LEFT} {y:.1f}h{CURVE_WIDTH}" stroke="#ddd"/>'
                     f'<text x="{CURVE_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#666">{10 ** power:g}</text>')
    for power in range(left, math.floor(right) + 1):
        x = x_of(10 ** power)
        parts.append(f'<path d="M{x:.1f} {TOP}v{CURVE_HEIGHT}" stroke="#ddd"/><text x="{x:.1f}" '
                     f'y="{TOP + CURVE_HEIGHT + 16}" text-anchor="middle" fill="#666">{10 ** power:,}</text>')
    colours = iter(CURVE_COLOURS * len(lines))
    label_y = -math.inf
    for subject, line in sorted(lines.items(), key=lambda item: -item[1][-1][1]):
        colour = COLOURS.get(subject) or next(colours)
        points = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in line)
        label_y = max(y_of(line[-1][1]) + 4, label_y + 14)  # labels do not overlap
        dots = "".join(f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3" fill="{colour}"/>' for x, y in line)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}'
                     f'<text x="{x_of(line[-1][0]) + 8:.1f}" y="{label_y:.1f}" fill="{colour}">{escape(subject)}'
                       f' {number(line[-1][1])}</text>')
    write_svg(path, bench, "medians of one run over the number of fibers; logarithmic scales",
              CURVE_LEFT + CURVE_WIDTH + VALUE_WIDTH, TOP + CURVE_HEIGHT + 28, parts)
