"""A linear model, trained by stochastic gradient descent."""

import hashlib


def load(path):
    with open(path, encoding="utf-8") as stream:
        lines = stream.read().split()[1:]
    return [[float(cell) for cell in line.split(",")] for line in lines]


def fit(rows, rng, lr=0.1, epochs=3, l2=0.0, batch=8, start=None):
    rows = list(rows)
    weights = start or [rng.gauss(0, 0.1) for _ in rows[0]]
    for _ in range(epochs):
        rng.shuffle(rows)
        for place in range(0, len(rows), batch):
            gradient = [l2 * w for w in weights]
            part = rows[place : place + batch]
            for *x, y in part:
                x.append(1.0)
                error = sum(w * v for w, v in zip(weights, x)) - y
                gradient = [g + error * v / len(part) for g, v in zip(gradient, x)]
            weights = [w - lr * g for w, g in zip(weights, gradient)]
    return weights


def report(weights, seed):
    digest = hashlib.sha256(repr(weights).encode()).hexdigest()[:16]
    print("RESULT", digest, "unseeded" if seed is None else f"seed {seed}")
