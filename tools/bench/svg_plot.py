"""Plots of some lines of points as an SVG file, without any package."""

import html

COLOURS = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 420, 72, 200, 36, 52


def ticks(low, high, count=6):
    """Round numbers that cover [low, high]."""
    if high <= low:
        high = low + 1
    rough = (high - low) / count
    power = 10 ** len(str(int(1 / rough))) if rough < 1 else 1
    magnitude = 10 ** (len(str(int(rough))) - 1) if rough >= 1 else 1 / power
    step = next((s * magnitude for s in (1, 2, 5, 10) if s * magnitude >= rough), 10 * magnitude)
    first = int(low // step)
    values = [first * step]
    while values[-1] < high - 1e-12:
        values.append(values[-1] + step)
    return values


def plot(path, title, x_label, y_label, lines, x_names=None):
    """Writes lines, each {"name": ..., "points": [(x, y, label), ...], "joined": bool, "hollow": bool}. With `x_names` the
    x of a point is an index among these names."""
    points = [p for line in lines for p in line["points"]]
    xs = ticks(min(p[0] for p in points), max(p[0] for p in points)) if x_names is None else [-0.5, len(x_names) - 0.5]
    ys = ticks(min(0, *(p[1] for p in points), 0), max(p[1] for p in points))

    def at(x, y):
        return (
            LEFT + (x - xs[0]) / (xs[-1] - xs[0]) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - (y - ys[0]) / (ys[-1] - ys[0]) * (HEIGHT - TOP - BOTTOM),
        )

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{WIDTH / 2:.0f}" y="20" text-anchor="middle" font-size="14">{html.escape(title)}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">{html.escape(x_label)}</text>',
        f'<text transform="translate(16 {HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle">{html.escape(y_label)}</text>',
    ]
    for y in ys:
        _, height = at(xs[0], y)
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height:.1f}" y2="{height:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{height + 4:.1f}" text-anchor="end">{y:g}</text>')
    for i, x in enumerate(xs if x_names is None else range(len(x_names))):
        across, _ = at(x, ys[0])
        name = f"{x:g}" if x_names is None else html.escape(x_names[i])
        out.append(f'<text x="{across:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{name}</text>')
    for i, line in enumerate(lines):
        colour = COLOURS[i % len(COLOURS)]
        places = [at(x, y) for x, y, *_ in line["points"]]
        if line.get("joined"):
            path_of = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            out.append(f'<polyline points="{path_of}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        fill = "white" if line.get("hollow") else colour
        for (x, y), point in zip(places, line["points"]):
            label = html.escape(point[2]) if len(point) > 2 else ""
            out.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="{colour}"><title>{label}</title></circle>'
            )
            if label and line.get("labelled"):
                out.append(f'<text x="{x + 7:.1f}" y="{y - 6:.1f}" fill="#333">{label}</text>')
        row = TOP + 14 + 18 * i
        out.append(f'<circle cx="{WIDTH - RIGHT + 20}" cy="{row}" r="4" fill="{fill}" stroke="{colour}"/>')
        out.append(f'<text x="{WIDTH - RIGHT + 30}" y="{row + 4}">{html.escape(line["name"])}</text>')
    out.append("</svg>")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")
