"""Update rules."""


class Sgd:
    def __init__(self, lr):
        self.lr = lr

    def step(self, weights, gradient):
        return [w - self.lr * g for w, g in zip(weights, gradient)]


class Momentum(Sgd):
    speed = None

    def step(self, weights, gradient):
        speed = self.speed or [0.0] * len(weights)
        self.speed = [0.9 * s + g for s, g in zip(speed, gradient)]
        return super().step(weights, self.speed)


OPTIMIZERS = {"sgd": Sgd, "momentum": Momentum}
