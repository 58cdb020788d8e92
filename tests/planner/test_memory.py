"""The refined formula of training memory: rows computed by hand, and what must always hold."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.planner.formulas.byte_range import ByteRange
from apps.planner.formulas.layer_table import read_layer_table
from apps.planner.formulas.lesson_memory import OPTIMISER_STATES
from apps.planner.formulas.memory import (
    BORDERLINE,
    DOES_NOT_FIT,
    FITS,
    GIB,
    compute_memory,
    judge,
)
from apps.planner.formulas.model_costs import ModelCosts, SavedBytes
from apps.planner.formulas.training_setup import (
    ATTENTIONS,
    PARTS,
    PRECISIONS,
    SHARDINGS,
    Training,
    TrainingError,
    estimate_lora_parameters,
)
from apps.planner.presets import presets
from tests.planner.layer_tables import ALEXNET_TORCHVISION, VGG16, VIT_B_16, resnet50

GB = 10**9
SMALL = ModelCosts(
    name="small",
    input="3x4x4",
    parameters=1_000,
    macs=5_000,
    layer_outputs=400,
    input_elements=48,
    buffer_elements=10,
    saved_bytes=SavedBytes(fp32=2_000, mixed=1_100),
    fixed_bytes_fp32=40,
    fixed_bytes_mixed=1_990,
    largest_output=100,
    origin="code",
    output_elements=10,
    head_parameters=110,
)
NO_RUNTIME = ByteRange.exact(0)


def training(**changes: object) -> Training:
    """Return a training of 8 samples without the runtime of a GPU."""
    return replace(Training(8, runtime=NO_RUNTIME), **changes)  # type: ignore[arg-type]


# Batch 16, Adam, FP32: GB of the design note, share of the bytes from the first trained layer on.
LAST_RESNET = 2_049_000 + 4_462_592  # head and the last bottleneck
LAST_VIT = 769_000 + 7_087_872  # head and the last block
ROWS = [
    ("resnet50", "full", None, None, "1.71", 3),
    ("resnet50", "last_blocks", LAST_RESNET, 25_000, "0.33", 3),
    ("resnet50", "head", None, None, "0.30", 3),
    ("resnet50", "lora", None, None, "1.42", 5),
    ("vit_b_16", "full", None, None, "2.97", 3),
    ("vit_b_16", "last_blocks", LAST_VIT, 1_000_000 // 12, "0.63", 3),
    ("vit_b_16", "head", None, None, "0.49", 3),
    ("vit_b_16", "lora", None, None, "2.32", 6),
]


@pytest.mark.parametrize(("model", "part", "trained", "share", "expected", "percent"), ROWS)
def test_rows_of_live_tensors(
    model: str, part: str, trained: int | None, share: int | None, expected: str, percent: int
) -> None:
    memory = compute_memory(
        presets()[model],
        Training(16, part=part, trained_parameters=trained, saved_ppm=share),
    )
    known = int(expected.replace(".", "")) * GB // 100
    assert abs(memory.tensors.likely - known) * 100 <= percent * known
    assert memory.tensors.low <= known <= memory.tensors.high


def test_parts_computed_by_hand() -> None:
    memory = compute_memory(SMALL, training())
    assert {part.key: part.bytes for part in memory.parts} == {
        "weights": ByteRange.exact(4_000),
        "copy": ByteRange.exact(0),
        "buffers": ByteRange.exact(40),
        "optimiser": ByteRange.exact(8_000),
        "kept_gradients": ByteRange.exact(0),
        "gathered_weights": ByteRange.exact(0),
        "input": ByteRange.exact(8 * 48 * 4),
        # low: 8 · 94 % of 2 000 + 40
        # likely: 8 · 2 000 + 40 + 30 % of 8 · 100 · 4 + 60 % of 4 000
        # high: 8 · 105 % of 2 000 + 40 + 8 · 100 · 4 + 4 000
        "working": ByteRange(15_080, 19_400, 24_040),
        "runtime": ByteRange.exact(0),
    }
    assert memory.deciding_moment == "backward"
    assert memory.largest_part == "working"
    assert memory.state.gradient_bytes == 4_000


def test_saved_bytes_of_a_preset_contain_the_input() -> None:
    own, preset = (
        compute_memory(replace(SMALL, origin=origin), training()).part("working").likely
        for origin in ("code", "preset")
    )
    assert own - preset == 8 * 48 * 4


def test_the_update_decides_a_small_batch() -> None:
    memory = compute_memory(replace(SMALL, parameters=100_000), training(micro_batch=1))
    assert memory.deciding_moment == "update"
    # gradients, and one temporary number for each parameter
    assert memory.part("working") == ByteRange(400_000, 800_000, 1_200_000)


def test_the_head_keeps_no_activations_of_its_body() -> None:
    memory = compute_memory(SMALL, training(part="head"))
    assert memory.trained_parameters == 110
    assert memory.part("optimiser") == ByteRange.exact(2 * 110 * 4)
    assert memory.deciding_moment == "frozen_body"
    assert memory.part("working") == ByteRange(5_440, 10_560, 12_800)  # 1.7, 3.3, 4 · 3 200


def test_a_recorded_forward_pass_is_used() -> None:
    memory = compute_memory(replace(SMALL, forward_bytes_fp32=1_000), training(part="head"))
    assert memory.part("working") == ByteRange(7_520, 8_000, 8_400)  # own code: 94 to 105 %
    assert "forward_bytes_from_preset" in memory.assumptions
    assert "forward_bytes_fitted" not in memory.assumptions


def test_recorded_checkpointing_is_used_for_the_whole_model() -> None:
    costs = replace(SMALL, checkpointed_bytes_fp32=1_000, origin="preset")
    memory = compute_memory(costs, training(has_checkpointing=True))
    # 8 samples of 1 000 bytes (85 to 115 %), and gradients of 4 000 bytes (70, 90, 100 %)
    backward = next(each.bytes for each in memory.moments if each.key == "backward")
    assert backward == ByteRange(6_800 + 2_800, 8_000 + 3_600, 9_200 + 4_000)
    assert "checkpointing_from_preset" in memory.assumptions
    adapters = compute_memory(costs, training(has_checkpointing=True, part="lora"))
    assert "checkpointing_estimated" in adapters.assumptions


def test_mixed_precision_keeps_the_state_and_adds_a_copy() -> None:
    memory = compute_memory(SMALL, training(precision="mixed"))
    assert memory.part("weights") == ByteRange.exact(4_000)
    assert memory.part("optimiser") == ByteRange.exact(8_000)
    assert memory.part("copy") == ByteRange.exact(1_990)
    # Half of the largest output, the gradients as they were.
    assert memory.part("working").likely == 8 * 1_100 + 30 * 8 * 100 * 2 // 100 + 2_400


def test_accumulation_keeps_gradients_during_the_backward_pass() -> None:
    memory = compute_memory(SMALL, training(accumulation_steps=4))
    assert memory.part("kept_gradients") == ByteRange.exact(4_000)


def test_inference_has_weights_and_no_state() -> None:
    memory = compute_memory(SMALL, training(part="inference"))
    assert (memory.state.optimiser_bytes, memory.state.gradient_bytes) == (0, 0)
    assert [moment.key for moment in memory.moments] == ["frozen_body"]


def test_zero_3_divides_the_state() -> None:
    memory = compute_memory(SMALL, training(gpus=4, sharding="zero3"))
    assert memory.part("weights") == ByteRange.exact(1_000)
    assert memory.part("optimiser") == ByteRange.exact(2_000)
    assert memory.state.gradient_bytes == 1_000
    # 10 % of the weights, or twice as many
    assert memory.part("gathered_weights") == ByteRange(400, 400, 800)


def test_the_loss_of_a_language_model_needs_its_outputs_twice_in_fp32() -> None:
    memory = compute_memory(presets()["gpt2_small"], Training(1, precision="mixed"))
    assert memory.moments[0].bytes.likely == 822_439_936 - 1024 * 8 + 2 * 4 * 1024 * 50_257
    assert memory.part("input") == ByteRange.exact(1024 * 8)


def test_runtime_is_experience_until_the_lab_measures_it() -> None:
    default = compute_memory(SMALL, Training(8))
    assert default.part("runtime").low == 300_000_000
    assert default.part("runtime").likely == 600_000_000 + (default.tensors.likely + 5) // 10
    assert "runtime_from_experience" in default.assumptions
    measured = ByteRange(500_000_000, 700_000_000, 800_000_000)
    own = compute_memory(SMALL, Training(8, runtime=measured))
    assert own.part("runtime") == measured
    assert "runtime_measured" in own.assumptions


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("alexnet", ALEXNET_TORCHVISION),
        ("vgg16", VGG16),
        ("vit_b_16", VIT_B_16),
        ("resnet50", resnet50()),
    ],
)
def test_a_layer_table_is_within_10_percent_of_the_preset(name: str, text: str) -> None:
    table = read_layer_table(text, input_shape="3x224x224")
    asked = Training(16, attention="fused")
    counted = compute_memory(table, asked)
    recorded = compute_memory(presets()[name], asked)
    assert "saved_bytes_from_layers" in counted.assumptions
    assert abs(counted.tensors.likely - recorded.tensors.likely) * 10 <= recorded.tensors.likely


def test_layer_outputs_give_the_widest_range() -> None:
    preset = presets()["bert_base_512"]
    unknown = replace(preset, saved_bytes=SavedBytes(), largest_output=None)
    memory = compute_memory(unknown, Training(8))
    assert {
        "saved_bytes_from_layer_outputs", "attention_unknown", "largest_output_unknown"
    } <= set(memory.assumptions)  # fmt: skip
    recorded = compute_memory(preset, Training(8))
    narrow, wide = recorded.part("working"), memory.part("working")
    assert wide.high * narrow.low > narrow.high * wide.low
    for attention in ("fused", "stored"):
        known = compute_memory(preset, Training(8, attention=attention)).tensors.likely
        assert memory.tensors.low <= known <= memory.tensors.high


def test_lora_of_a_7b_model_has_about_the_parameters_of_all_its_matrices() -> None:
    """Rank 8 beside all 224 matrices of the blocks of Llama 2 7B are 20.0 million parameters."""
    estimated = estimate_lora_parameters(presets()["llama2_7b"], 8)
    assert abs(estimated - 19_988_480) * 100 <= 35 * 19_988_480


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("micro_batch", 0),
        ("optimiser", "adamax"),
        ("precision", "fp4"),
        ("part", "half"),
        ("attention", "none"),
        ("sharding", "zero4"),
        ("gpus", 0),
        ("accumulation_steps", 0),
        ("lora_rank", 0),
        ("saved_ppm", 1_000_001),
        ("trained_parameters", -1),
    ],
)
def test_a_wrong_value_names_its_field(field: str, value: object) -> None:
    with pytest.raises(TrainingError) as error:
        compute_memory(SMALL, training(**{field: value}))
    assert error.value.field == field


def test_unknown_trained_parameters_are_no_guess() -> None:
    with pytest.raises(TrainingError, match="Enter them"):
        compute_memory(SMALL, training(part="last_blocks"))
    with pytest.raises(TrainingError, match="1000 parameters"):
        compute_memory(SMALL, training(part="head", trained_parameters=1_001))


@pytest.mark.parametrize(
    ("needed", "verdict"),
    [
        ((89, 89, 89), FITS),
        ((90, 90, 90), BORDERLINE),
        ((115, 115, 115), BORDERLINE),
        ((116, 116, 116), DOES_NOT_FIT),
        ((50, 80, 115), FITS),
        ((50, 80, 116), BORDERLINE),
        ((90, 120, 200), DOES_NOT_FIT),
        ((89, 120, 200), BORDERLINE),
    ],
)
def test_verdicts_at_a_card_of_100(needed: tuple[int, int, int], verdict: str) -> None:
    assert judge(ByteRange(*needed), 100) == verdict


MODELS = st.one_of(
    st.sampled_from(list(presets().values())),
    st.builds(
        replace,
        st.sampled_from(list(presets().values())),
        saved_bytes=st.just(SavedBytes()),
        largest_output=st.none(),
    ),
)
TRAININGS = st.builds(
    Training,
    micro_batch=st.integers(1, 4096),
    optimiser=st.sampled_from(sorted(OPTIMISER_STATES)),
    precision=st.sampled_from(sorted(PRECISIONS)),
    part=st.sampled_from(PARTS),
    trained_parameters=st.integers(0, 60_000),
    saved_ppm=st.one_of(st.none(), st.integers(0, 1_000_000)),
    attention=st.sampled_from(ATTENTIONS),
    has_checkpointing=st.booleans(),
    accumulation_steps=st.integers(1, 16),
    gpus=st.integers(1, 64),
    sharding=st.sampled_from(SHARDINGS),
)


def _never_more(less: ByteRange, more: ByteRange) -> bool:
    return less.low <= more.low and less.likely <= more.likely and less.high <= more.high


@given(MODELS, TRAININGS)
def test_parts_sum_to_the_total_and_are_in_order(costs: ModelCosts, asked: Training) -> None:
    memory = compute_memory(costs, asked)
    for level in ("low", "likely", "high"):
        parts = sum(getattr(part.bytes, level) for part in memory.parts)
        moments = [getattr(moment.bytes, level) for moment in memory.moments]
        assert parts == getattr(memory.total, level)
        assert getattr(memory.part("working"), level) == max(moments)
    for part in (*memory.parts, *memory.moments):
        assert 0 <= part.bytes.low <= part.bytes.likely <= part.bytes.high


@given(MODELS, TRAININGS, st.integers(1, 100))
def test_a_larger_batch_never_needs_less(costs: ModelCosts, asked: Training, more: int) -> None:
    larger = replace(asked, micro_batch=asked.micro_batch + more)
    assert _never_more(compute_memory(costs, asked).total, compute_memory(costs, larger).total)


@given(MODELS, TRAININGS)
def test_more_sharding_never_needs_more(costs: ModelCosts, asked: Training) -> None:
    needs = [compute_memory(costs, replace(asked, sharding=key)).total for key in SHARDINGS]
    assert all(_never_more(less, more) for more, less in pairwise(needs))


@given(MODELS, TRAININGS, st.sampled_from(SHARDINGS[1:]), st.integers(1, 64))
def test_more_gpus_never_need_more(
    costs: ModelCosts, asked: Training, sharding: str, more: int
) -> None:
    few = replace(asked, sharding=sharding, gpus=asked.gpus + 1)
    many = replace(few, gpus=few.gpus + more)
    assert _never_more(compute_memory(costs, many).total, compute_memory(costs, few).total)


# AlexNet, VGG-16 and smaller models are not among them: the state of their large heads needs more
# than the activations of a small batch.
SMALL_HEADS = [
    model
    for model in presets().values()
    if model.parameters > 10**6
    and model.head_parameters
    and 24 * model.head_parameters <= (model.saved_bytes.fp32 or 0)
]


@given(
    st.sampled_from(SMALL_HEADS),
    st.integers(1, 4096),
    st.sampled_from(sorted(PRECISIONS)),
    st.sampled_from(["adam", "adamw"]),
    st.sampled_from(ATTENTIONS),
)
def test_full_needs_at_least_lora_and_lora_at_least_the_head(
    costs: ModelCosts, batch: int, precision: str, optimiser: str, attention: str
) -> None:
    asked = Training(batch, optimiser, precision, attention=attention, lora_rank=1)
    full, lora, head = (
        compute_memory(costs, replace(asked, part=part)).tensors.likely
        for part in ("full", "lora", "head")
    )
    assert full >= lora >= head


VERDICTS = [DOES_NOT_FIT, BORDERLINE, FITS]


@given(
    st.lists(st.integers(0, 10**12), min_size=3, max_size=3).map(sorted),
    st.integers(0, 10**12),
    st.integers(0, 10**12),
)
def test_a_larger_card_never_has_a_worse_verdict(needed: list[int], card: int, more: int) -> None:
    need = ByteRange(*needed)
    assert VERDICTS.index(judge(need, card + more)) >= VERDICTS.index(judge(need, card))


def test_resnet_50_on_cards_of_the_market() -> None:
    needed = compute_memory(presets()["resnet50"], Training(64)).total  # 6.8 GiB
    assert [judge(needed, size * GIB) for size in (4, 6, 8)] == [DOES_NOT_FIT, BORDERLINE, FITS]
