"""Result of the planner: operations of the training, its memory, and the cards that contain it."""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.core.units import THIN
from apps.dashboard.charts import Chart
from apps.dashboard.planner.forms import PlannerForm, place_value, size_value
from apps.dashboard.planner.layers import LayerRow, layer_chart, layer_rows
from apps.dashboard.planner.memory_bar import MemoryBar, lesson_bar
from apps.dashboard.planner.memory_ranges import Refined, refined_memory
from apps.dashboard.planner.sizes import count_text, memory_size, memory_text
from apps.planner.cards import MarketSize, NodeCard
from apps.planner.choices import Trainable
from apps.planner.formulas.byte_range import ByteRange
from apps.planner.formulas.lesson_memory import (
    Assumption,
    LessonInput,
    LessonMemory,
    compare_assumptions,
    compute_lesson_memory,
    count_cards,
)
from apps.planner.formulas.memory import BORDERLINE, DOES_NOT_FIT, FITS, judge
from apps.planner.formulas.model_costs import ModelCosts
from apps.planner.formulas.work import Training, training_flops

UNKNOWN = "unknown"
VERDICTS = {
    FITS: "Fits",
    BORDERLINE: "Borderline",
    DOES_NOT_FIT: "Does not fit",
    UNKNOWN: "Unknown",
}
ASSUMPTIONS = {
    "layer_outputs": "N counts layers with parameters only",
    "unit_constant": "k is 1: outputs without their gradients",
    "margin": "Without the margin of 20 %",
}
# The lesson's formula has one size for all numbers.
_LESSON_PRECISION = {"fp32": "fp32", "mixed": "fp16", "bf16": "bf16"}
TRAINABLE = {"full": Trainable.FULL, "lora": Trainable.ADAPTERS, "head": Trainable.HEAD}


@dataclass(frozen=True)
class Fact:
    """A count of the model or its training. ``value`` None: unknown, ``hint`` states why."""

    name: str
    label: str
    value: int | None
    unit: str = ""
    hint: str = ""

    @property
    def text(self) -> str:
        """Return the count in short form."""
        return "unknown" if self.value is None else f"{count_text(self.value)}{self.unit}"


@dataclass(frozen=True)
class CardRow:
    """A card and whether the training fits. ``verdict``: by the refined formula. ``lesson_verdict``
    and ``cards``: verdict and number of such cards by the formula of the lesson.
    """

    name: str
    detail: str
    memory_bytes: int | None
    verdict: str
    lesson_verdict: str
    cards: int | None
    is_selected: bool = False

    @property
    def memory(self) -> str:
        """Return the memory as text."""
        return memory_size(self.memory_bytes) if self.memory_bytes else "unknown"

    @property
    def verdict_label(self) -> str:
        """Return the verdict in words."""
        return VERDICTS[self.verdict]

    @property
    def lesson_label(self) -> str:
        """Return the verdict by the formula of the lesson in words."""
        return VERDICTS[self.lesson_verdict]


@dataclass(frozen=True)
class AssumptionRow:
    """An assumption that decides on the selected card."""

    key: str
    label: str
    total_bytes: int
    total: str
    cards: int


@dataclass(frozen=True)
class Result:
    """The result of a valid form. ``selected``: the card of the form, None without one."""

    costs: ModelCosts
    facts: Sequence[Fact]
    lesson: LessonMemory
    lesson_input: LessonInput
    refined: Refined
    bar: MemoryBar
    lab_rows: Sequence[CardRow]
    market_rows: Sequence[CardRow]
    selected: CardRow | None
    assumptions: Sequence[AssumptionRow]
    layers: Sequence[LayerRow]
    chart: Chart | None
    largest: LayerRow | None
    is_mixed: bool
    trains_all: bool
    has_checkpointing: bool

    @property
    def total(self) -> str:
        """Return the memory as text."""
        return memory_text(self.lesson.total_bytes)

    @property
    def smallest_that_fits(self) -> CardRow | None:
        """Return the smallest size of the catalogue that fits."""
        return next((row for row in self.market_rows if row.verdict == FITS), None)

    @property
    def is_market_selected(self) -> bool:
        """Whether the card of the form is a size of the catalogue."""
        return any(row.is_selected for row in self.market_rows)

    @property
    def largest_share(self) -> str:
        """Return the largest layer in percent of the selected card, '' if one is unknown."""
        if self.largest is None or self.selected is None or not self.selected.memory_bytes:
            return ""
        percent = 100 * self.largest.total_bytes // self.selected.memory_bytes
        return f"{percent}{THIN}%" if percent else f"<{THIN}1{THIN}%"


def planner_result(
    form: PlannerForm, cards: Sequence[NodeCard], market: Sequence[MarketSize]
) -> Result:
    """Return the result of a valid form."""
    data, costs = form.cleaned_data, form.costs
    training, memory = form.training, form.memory
    assert costs is not None, "a valid form has a model"
    assert training is not None, "a valid form has a training"
    assert memory is not None, "a valid form has a memory"
    values = LessonInput(
        parameters=costs.parameters,
        layer_outputs=costs.layer_outputs,
        batch=data["batch"],
        optimiser=data["optimiser"],
        precision=_LESSON_PRECISION[data["precision"]],
        unit_constant=int(data["k"]),
    )
    lesson = compute_lesson_memory(values)
    lab_rows = [
        _card_row(
            f"{card.node.name}",
            f"{card.gpus} × {card.name}" if card.gpus > 1 else card.name,
            card.memory_bytes,
            (memory.total, lesson.total_bytes),
            is_selected=place_value(card) == data["place"],
        )
        for card in cards
    ]
    market_rows = [
        _card_row(
            memory_size(size.memory_bytes),
            f"such as {size.example}",
            size.memory_bytes,
            (memory.total, lesson.total_bytes),
            is_selected=size_value(size) == data["place"],
        )
        for size in market
    ]
    selected = next((row for row in [*lab_rows, *market_rows] if row.is_selected), None)
    layers = layer_rows(costs, values.batch, values.number_bytes)
    return Result(
        costs=costs,
        facts=_facts(costs, data),
        lesson=lesson,
        lesson_input=values,
        refined=refined_memory(
            costs,
            training,
            memory,
            [*lab_rows, *market_rows],
            selected.memory_bytes if selected else None,
        ),
        bar=lesson_bar(lesson, [*lab_rows, *market_rows]),
        lab_rows=lab_rows,
        market_rows=market_rows,
        selected=selected,
        assumptions=_assumptions(values, costs, selected),
        layers=layers,
        chart=layer_chart(layers) if layers else None,
        largest=max(layers, key=lambda row: row.total_bytes, default=None),
        is_mixed=data["precision"] == "mixed",
        trains_all=data["trainable"] == "full",
        has_checkpointing=data["checkpointing"] == "on",
    )


def _verdict(needed: ByteRange, card_bytes: int | None) -> str:
    return judge(needed, card_bytes) if card_bytes else UNKNOWN


def _card_row(
    name: str,
    detail: str,
    memory_bytes: int | None,
    needed: tuple[ByteRange, int],
    *,
    is_selected: bool,
) -> CardRow:
    """``needed``: by the refined formula, and by that of the lesson."""
    refined, lesson_bytes = needed
    return CardRow(
        name=name,
        detail=detail,
        memory_bytes=memory_bytes,
        verdict=_verdict(refined, memory_bytes),
        lesson_verdict=_verdict(ByteRange.exact(lesson_bytes), memory_bytes),
        cards=count_cards(lesson_bytes, memory_bytes) if memory_bytes else None,
        is_selected=is_selected,
    )


def _assumptions(
    values: LessonInput, costs: ModelCosts, selected: CardRow | None
) -> list[AssumptionRow]:
    if selected is None or not selected.memory_bytes:
        return []
    changed: Sequence[Assumption] = compare_assumptions(
        values, selected.memory_bytes, costs.parameter_layer_outputs
    )
    return [
        AssumptionRow(
            each.key,
            ASSUMPTIONS[each.key],
            each.total_bytes,
            memory_text(each.total_bytes),
            each.cards,
        )
        for each in changed
    ]


def _facts(costs: ModelCosts, data: dict[str, object]) -> list[Fact]:
    """Return the counts of the model, of a step, and of the whole training."""
    batch, samples, epochs = data["batch"], data["samples"], data["epochs"]
    assert isinstance(batch, int), "the batch is required"
    training = Training(
        trainable=TRAINABLE[str(data["trainable"])], checkpointing=data["checkpointing"] == "on"
    )
    steps = total = None
    if isinstance(samples, int) and isinstance(epochs, int):
        steps = -(-samples // batch) * epochs
        total = training_flops(costs.macs, samples * epochs, training)
    hint = "" if total is not None else "Enter dataset size and epochs."
    return [
        Fact("parameters", "Parameters", costs.parameters),
        Fact("macs", "MACs of a sample", costs.macs),
        Fact("layer_outputs", "Layer outputs of a sample", costs.layer_outputs),
        Fact("flops_step", "FLOPs of a step", training_flops(costs.macs, batch, training)),
        Fact("steps", "Steps", steps, hint=hint),
        Fact("flops_total", "FLOPs of the training", total, hint=hint),
    ]
