"""Operations of single operators, computed by hand."""

from typing import Any

import pytest

from apps.planner.model_files.operators import Node, UnusualNode, count_node


def counts(
    kind: str, inputs: list[tuple[int, ...] | None], output: tuple[int, ...], **attributes: Any
) -> tuple[int, int]:
    costs = count_node(Node(kind, tuple(inputs), (output,), attributes))
    assert costs is not None
    return costs.macs, costs.operations


def test_depthwise_convolution() -> None:
    # 8 channels in 8 groups: 9 MACs for each of 8 × 4 × 4 outputs, and a bias each
    assert counts("Conv", [(1, 8, 6, 6), (8, 1, 3, 3), (8,)], (1, 8, 4, 4)) == (1152, 1280)


def test_lstm_steps() -> None:
    # 5 steps of 2 units with 3 inputs: 4 gates × 2 units × (3 + 2) = 40 MACs a step
    shapes: list[tuple[int, ...] | None] = [(5, 1, 3), (1, 8, 3), (1, 8, 2)]
    assert counts("LSTM", shapes, (5, 1, 1, 2)) == (200, 200 + 32 * 10)
    # two bias vectors of 4 gates × 2 units a step
    assert counts("LSTM", [*shapes, (1, 16)], (5, 1, 1, 2)) == (200, 200 + 16 * 5 + 32 * 10)


def test_gru_and_rnn_in_two_directions() -> None:
    assert counts("GRU", [(4, 1, 3), (2, 6, 3), (2, 6, 2)], (4, 2, 1, 2))[0] == 4 * 2 * 6 * 5
    assert counts("RNN", [(4, 1, 3), (2, 2, 3), (2, 2, 2)], (4, 2, 1, 2))[0] == 4 * 2 * 2 * 5


def test_batched_matrix_products() -> None:
    assert (
        counts("MatMul", [(12, 128, 64), (12, 64, 128)], (12, 128, 128))[0] == 12 * 128 * 128 * 64
    )
    assert counts("Gemm", [(64, 1), (64, 10), None], (1, 10), transA=1) == (640, 640)


def test_einsum() -> None:
    shapes: list[tuple[int, ...] | None] = [(2, 3, 4), (2, 4, 5)]
    assert counts("Einsum", shapes, (2, 3, 5), equation="bij, bjk -> bik") == (120, 120)
    assert counts("Einsum", [(3, 4)], (4, 3), equation="ij->ji") == (0, 12)
    dotted = Node("Einsum", ((2, 3), (3, 4)), ((2, 4),), {"equation": "...j,jk->...k"})
    assert count_node(dotted) is None


@pytest.mark.parametrize("shapes", [
    [(1, 12, 10, 64), (1, 12, 20, 64), (1, 12, 20, 64)],
    [(1, 10, 768), (1, 20, 768), (1, 20, 768)],
])  # fmt: skip
def test_attention(shapes: list[tuple[int, ...] | None]) -> None:
    scores = 12 * 10 * 20
    macs = scores * 128
    expected = (macs, macs + 3 * scores)
    assert counts("Attention", shapes, (1, 10, 768), q_num_heads=12, kv_num_heads=12) == expected


def test_resize_by_neighbours() -> None:
    shapes: list[tuple[int, ...] | None] = [(1, 2, 4, 4)]
    assert counts("Resize", shapes, (1, 2, 8, 8), mode="nearest") == (0, 0)
    assert counts("Resize", shapes, (1, 2, 8, 8), mode="linear") == (0, 7 * 128)


def test_pools_and_reductions() -> None:
    assert counts("AveragePool", [(1, 2, 4, 4)], (1, 2, 2, 2), kernel_shape=(2, 2)) == (0, 32)
    assert counts("GlobalAveragePool", [(1, 2, 4, 4)], (1, 2, 1, 1)) == (0, 32)
    assert counts("Softmax", [(1, 10)], (1, 10)) == (0, 30)


def test_an_unknown_operator_has_no_count_and_an_odd_node_is_no_zero() -> None:
    assert count_node(Node("NonMaxSuppression", ((1, 4),), ((3,),))) is None
    for kind in ("Conv", "Gemm", "MatMul", "LSTM", "MaxPool", "LRN", "Einsum", "Attention"):
        with pytest.raises(UnusualNode):
            count_node(Node(kind, (), ()))
