import torch


def cross_entropy(rows, targets):
    assert rows.dim() == 2
    logarithms = torch.operate(rows.shape, [rows], saves=["result"])
    return torch.operate((), [logarithms], saves=[targets])


def mse_loss(result, targets):
    return torch.operate((), [result], saves=[result, targets])


def dropout(value, p=0.5, training=True, inplace=False):
    return value


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0):
    return torch.operate(query.shape, [query, key, value], saves=[query, key, value])
