"""The networks that a configuration can name."""

import math
import random


class Perceptron:
    """One hidden layer."""

    def __init__(self, inputs: int, hidden: int) -> None:
        self.first = [[random.uniform(-0.5, 0.5) for _ in range(inputs)] for _ in range(hidden)]
        self.second = [random.uniform(-0.5, 0.5) for _ in range(hidden)]

    def update(self, pixel: list[float], label: float, rate: float) -> float:
        hidden = [math.tanh(sum(w * x for w, x in zip(row, pixel))) for row in self.first]
        error = sum(w * h for w, h in zip(self.second, hidden)) - label
        for index, value in enumerate(hidden):
            slope = error * self.second[index] * (1 - value * value)
            self.second[index] -= rate * error * value
            row = self.first[index]
            self.first[index] = [w - rate * slope * x for w, x in zip(row, pixel)]
        return error * error


class Linear:
    """No hidden layer."""

    def __init__(self, inputs: int, hidden: int) -> None:
        self.weights = [random.uniform(-0.5, 0.5) for _ in range(inputs)]

    def update(self, pixel: list[float], label: float, rate: float) -> float:
        error = sum(w * x for w, x in zip(self.weights, pixel)) - label
        self.weights = [w - rate * error * x for w, x in zip(self.weights, pixel)]
        return error * error


NETWORKS = {"perceptron": Perceptron, "linear": Linear}
