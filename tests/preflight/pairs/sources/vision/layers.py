"""The models that the group `model` selects."""

import math
import random


class Linear:
    def __init__(self, inputs, settings):
        self.weights = [random.gauss(0, 0.1) for _ in range(inputs)]

    def gradient(self, pixels, label):
        error = math.tanh(sum(w * x for w, x in zip(self.weights, pixels))) - label
        return [error * x for x in pixels]


class Mlp:
    """Random features of a fixed first layer, and a trained second layer."""

    def __init__(self, inputs, settings):
        self.first = [
            [random.gauss(0, settings.rank) for _ in range(inputs)] for _ in range(settings.hidden)
        ]
        self.weights = [random.gauss(0, 0.1) for _ in range(settings.hidden)]

    def gradient(self, pixels, label):
        hidden = [max(0, sum(w * x for w, x in zip(row, pixels))) for row in self.first]
        error = math.tanh(sum(w * h for w, h in zip(self.weights, hidden))) - label
        return [error * h for h in hidden]


def build(settings, inputs):
    return {"linear": Linear, "mlp": Mlp}[settings["_name"]](inputs, settings)
