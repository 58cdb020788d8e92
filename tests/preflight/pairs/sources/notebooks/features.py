"""Features that the notebooks share."""

from pathlib import Path


def load(path, columns=None):
    lines = Path(path).read_text().splitlines()[1:]
    rows = [[float(cell) for cell in line.split(",")] for line in lines]
    return [[*row[:-1][:columns], row[-1]] for row in rows]


def scale(rows):
    largest = [max(abs(x) for x in column) or 1.0 for column in zip(*rows)]
    return [[x / m for x, m in zip(row, largest)] for row in rows]
