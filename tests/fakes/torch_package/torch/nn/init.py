def _no_grad_trunc_normal_(tensor, mean, std, a, b, generator=None):
    tensor.item()  # as in torch: it reads whether a value is outside the bounds


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    return _no_grad_trunc_normal_(tensor, mean, std, a, b, generator=generator)
