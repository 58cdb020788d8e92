import torch


def cross_entropy(rows, targets):
    assert rows.dim() == 2
    torch.save(torch.Tensor(rows.shape), targets)
    return torch.Tensor((), requires_grad=True)


def mse_loss(result, targets):
    torch.save(result, targets)
    return torch.Tensor((), requires_grad=True)
