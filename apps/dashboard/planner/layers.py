"""Memory of the layers of a model: weights, inputs and outputs of a batch."""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.dashboard.charts import SERIES, Chart, figure_as_json, label, new_figure
from apps.dashboard.planner.sizes import memory_text, memory_unit
from apps.planner.formulas.model_costs import LayerCosts, ModelCosts

MAX_LAYERS = 60  # of the chart and its table; the CSV has all
_PANELS = (
    ("weight_bytes", "Weights", "s1", (0.72, 1)),
    ("input_bytes", "Inputs", "s2", (0.36, 0.64)),
    ("output_bytes", "Outputs", "s4", (0, 0.28)),
)


@dataclass(frozen=True)
class LayerRow:
    """A layer with a batch. ``number``: its place in the model, from 1 on."""

    number: int
    layer: LayerCosts
    weight_bytes: int
    input_bytes: int
    output_bytes: int

    @property
    def total_bytes(self) -> int:
        """Return the sum of weights, inputs and outputs."""
        return self.weight_bytes + self.input_bytes + self.output_bytes

    @property
    def weights(self) -> str:
        """Return the weights as text."""
        return memory_text(self.weight_bytes)

    @property
    def inputs(self) -> str:
        """Return the inputs as text."""
        return memory_text(self.input_bytes)

    @property
    def outputs(self) -> str:
        """Return the outputs as text."""
        return memory_text(self.output_bytes)

    @property
    def total(self) -> str:
        """Return the sum as text."""
        return memory_text(self.total_bytes)


def layer_rows(costs: ModelCosts, batch: int, number_bytes: int) -> list[LayerRow]:
    """Return all layers of a model with a batch."""
    return [
        LayerRow(
            number=number,
            layer=layer,
            weight_bytes=layer.parameters * number_bytes,
            input_bytes=layer.input_elements * batch * number_bytes,
            output_bytes=layer.output_elements * batch * number_bytes,
        )
        for number, layer in enumerate(costs.layers, start=1)
    ]


def drawn_rows(rows: Sequence[LayerRow]) -> list[LayerRow]:
    """Return the largest layers, in the order of the model."""
    largest = sorted(rows, key=lambda row: -row.total_bytes)[:MAX_LAYERS]
    return sorted(largest, key=lambda row: row.number)


def layer_chart(rows: Sequence[LayerRow]) -> Chart:
    """Return bars of weights, inputs and outputs by layer, each over its own axis."""
    drawn = drawn_rows(rows)
    unit = memory_unit(row.total_bytes for row in drawn)
    figure = new_figure()
    places = list(range(len(drawn)))
    layout: dict[str, object] = {}
    for index, (name, title, colour, domain) in enumerate(_PANELS, start=1):
        axis = "" if index == 1 else str(index)
        figure.add_bar(
            x=places,
            y=[getattr(row, name) / unit.divisor for row in drawn],
            name=title,
            yaxis=f"y{axis}",
            marker={"color": SERIES[colour], "line": {"width": 0}},
            customdata=[f"{row.number}. {label(row.layer.name, 40)}" for row in drawn],
            hovertemplate=f"%{{customdata}}<br>{title}: %{{y:.3~g}} {unit.name}<extra></extra>",
        )
        layout[f"yaxis{axis}"] = {"domain": domain, "rangemode": "tozero", "nticks": 4}
    step = max(1, -(-len(drawn) // 8))
    ticks = places[::step]
    figure.update_layout(
        xaxis={
            "anchor": "y3",
            "fixedrange": True,
            "tickvals": ticks,
            "ticktext": [str(drawn[place].number) for place in ticks],
            "range": [-0.5, len(drawn) - 0.5],
            "title": {"text": "layer"},
        },
        showlegend=False,
        margin={"l": 62, "r": 10, "b": 44, "t": 24},
        dragmode=False,
        annotations=[
            {
                "name": "panel", "text": title, "x": 0, "xref": "paper", "xanchor": "left",
                "y": domain[1], "yref": "paper", "yanchor": "bottom", "showarrow": False,
                "font": {"size": 12},
            }
            for _, title, _, domain in _PANELS
        ],
        **layout,
    )  # fmt: skip
    largest = max(drawn, key=lambda row: row.total_bytes)
    number = f"the {len(drawn)} largest of {len(rows)}" if len(drawn) < len(rows) else len(drawn)
    return Chart(
        "planner-layers",
        f"Weights, inputs and outputs of {number} layers in {unit.name}. "
        f"The largest is layer {largest.number} ({largest.layer.name}) with {largest.total}.",
        figure_as_json(figure),
        [(colour, title) for _, title, colour, _ in _PANELS],
        False,
        unit.name,
    )
