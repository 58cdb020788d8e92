"""Form of the planner: the model and its training. It is sent with GET: the URL is its state."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.core.exceptions import ValidationError

from apps.dashboard.forms import TextField
from apps.dashboard.planner.sizes import memory_size
from apps.planner.cards import MarketSize, NodeCard
from apps.planner.formulas.layer_shapes import ShapeError, element_count, read_shape
from apps.planner.formulas.layer_table import LayerTableError, read_layer_table
from apps.planner.formulas.memory import Memory, compute_memory
from apps.planner.formulas.model_costs import ModelCosts
from apps.planner.formulas.training_setup import ATTENTIONS, Training, TrainingError
from apps.planner.presets import presets

PRESET, LAYERS, NUMBERS = "preset", "layers", "numbers"
# A longer address is refused by common proxies.
MAX_LAYER_TEXT = 4000
MAX_NUMBER = 10**15
PRECISIONS = [("fp32", "FP32"), ("mixed", "Mixed (16 and 32 bits)"), ("bf16", "BF16 throughout")]
OPTIMISERS = [
    ("adamw", "AdamW"), ("adam", "Adam"), ("sgd", "SGD"), ("momentum", "SGD with momentum"),
    ("rmsprop", "RMSprop"), ("adagrad", "Adagrad"), ("lion", "Lion"),
]  # fmt: skip
TRAINABLE = [
    ("full", "Whole model"),
    ("lora", "Adapters (LoRA)"),
    ("head", "New head, frozen body"),
]
_DEFAULTS = {
    "source": PRESET, "preset": "resnet50", "batch": "32", "precision": "fp32",
    "optimiser": "adamw", "trainable": "full", "checkpointing": "off", "k": "2",
    "attention": "unknown",
}  # fmt: skip
# Fields of Training that have another name here.
_FIELDS = {"micro_batch": "batch", "part": "trainable", "trained_parameters": "trained"}
# Fields that count for one source of the model only.
_OF_SOURCE = {
    PRESET: ("preset",),
    LAYERS: ("layers", "input"),
    NUMBERS: ("parameters", "macs", "layer_outputs", "input"),
}


class WholeNumberField(forms.IntegerField):
    """A whole number from 1 to 10¹⁵. Spaces between thousands are read."""

    widget = forms.TextInput

    def __init__(self, **options: Any) -> None:
        messages = {
            "invalid": "Enter a whole number, such as 50000.",
            "min_value": "Enter a number from 1 on.",
            "max_value": "Enter a number up to 1 000 000 000 000 000.",
            "required": "Enter a number.",
        }
        super().__init__(min_value=1, max_value=MAX_NUMBER, error_messages=messages, **options)
        self.widget.attrs.setdefault("inputmode", "numeric")

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str):
            value = "".join(value.split())
            if value and not (value.isascii() and value.isdecimal() and len(value) <= 20):
                raise ValidationError(self.error_messages["invalid"], code="invalid")
        return super().to_python(value)


class PlannerForm(forms.Form):
    """A planned training. ``costs`` of its model, ``training`` and ``memory`` by the refined
    formula: None if the form is invalid.
    """

    source = forms.ChoiceField(
        label="Model from",
        choices=[(PRESET, "Preset"), (LAYERS, "Layer table"), (NUMBERS, "Numbers")],
        widget=forms.RadioSelect,
    )
    preset = forms.ChoiceField(label="Model", required=False)
    layers = TextField(
        label="Layer table",
        required=False,
        max_length=MAX_LAYER_TEXT,
        help_text="One layer a line, such as: conv 32 5x5 stride 1 pad 2",
        widget=forms.Textarea({"rows": 8, "spellcheck": "false"}),
    )
    parameters = WholeNumberField(label="Parameters", required=False)
    macs = WholeNumberField(label="MACs of a sample", required=False)
    layer_outputs = WholeNumberField(label="Layer outputs", required=False)
    input = TextField(
        label="Input size", required=False, max_length=60, help_text="3x224x224 or 512 tokens"
    )
    samples = WholeNumberField(label="Dataset size", required=False)
    epochs = WholeNumberField(label="Epochs", required=False)
    batch = WholeNumberField(label="Batch size")
    precision = forms.ChoiceField(label="Precision", choices=PRECISIONS)
    optimiser = forms.ChoiceField(label="Optimiser", choices=OPTIMISERS)
    trainable = forms.ChoiceField(label="Trainable part", choices=TRAINABLE)
    checkpointing = forms.ChoiceField(label="Checkpointing", choices=[("off", "Off"), ("on", "On")])
    trained = WholeNumberField(
        label="Trained parameters",
        required=False,
        help_text="Of a head or of adapters, if they differ from the model's last layer or rank 8",
    )
    attention = forms.ChoiceField(
        label="Attention", choices=[(name, name.capitalize()) for name in ATTENTIONS]
    )
    k = forms.ChoiceField(
        label="Unit constant k",
        choices=[("2", "2: outputs and gradients"), ("1", "1: outputs")],
    )
    place = forms.ChoiceField(label="Run on", required=False)

    def __init__(
        self, params: Mapping[str, Any], cards: Sequence[NodeCard], market: Sequence[MarketSize]
    ) -> None:
        given = {name: params[name] for name in self.base_fields if name in params}
        self.is_sent = bool(given)
        self.costs: ModelCosts | None = None
        self.training: Training | None = None
        self.memory: Memory | None = None
        initial = {**_DEFAULTS, "place": default_place(cards)}
        super().__init__(
            {**initial, **given} if self.is_sent else None,
            initial=initial,
            label_suffix="",
            use_required_attribute=False,
        )
        self._set_choices(
            "preset", [(name, _preset_label(model)) for name, model in presets().items()]
        )
        self._set_choices("place", _places(cards, market))

    def _set_choices(self, name: str, choices: list[Any]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices

    def clean(self) -> dict[str, Any]:
        data = self.cleaned_data
        source = data.get("source")
        if source is None:
            return data
        for other, names in _OF_SOURCE.items():
            for name in names if other != source else ():
                if name not in _OF_SOURCE[source]:  # of another source: not read
                    self.errors.pop(name, None)
        if not any(name in self.errors for name in _OF_SOURCE[source]):
            self.costs = {
                PRESET: self._preset, LAYERS: self._layer_table, NUMBERS: self._numbers
            }[source]()  # fmt: skip
        if self.costs is not None and not self.errors:
            self._compute(self.costs)
        return data

    def _compute(self, costs: ModelCosts) -> None:
        data = self.cleaned_data
        training = Training(
            micro_batch=data["batch"],
            optimiser=data["optimiser"],
            precision=data["precision"],
            part=data["trainable"],
            trained_parameters=None if data["trainable"] == "full" else data["trained"],
            attention=data["attention"],
            has_checkpointing=data["checkpointing"] == "on",
        )
        try:
            self.memory = compute_memory(costs, training)
        except TrainingError as error:
            self.add_error(_FIELDS.get(error.field, error.field), str(error))
        else:
            self.training = training

    def _preset(self) -> ModelCosts | None:
        name = self.cleaned_data["preset"]
        if not name:
            self.add_error("preset", "Choose a model.")
            return None
        return presets()[name]

    def _layer_table(self) -> ModelCosts | None:
        text, shape = self.cleaned_data["layers"], self.cleaned_data["input"]
        if not text:
            self.add_error("layers", "Enter one layer a line.")
        if not self._has_shape(is_required=True) or not text:
            return None
        try:
            return read_layer_table(text, input_shape=shape)
        except LayerTableError as error:
            self.add_error("layers", str(error))
            return None

    def _numbers(self) -> ModelCosts | None:
        data = self.cleaned_data
        needed = ("parameters", "macs", "layer_outputs")
        for name in needed:
            if data.get(name) is None:
                self.add_error(name, "Enter a number.")
        if not self._has_shape(is_required=False) or any(name in self.errors for name in needed):
            return None
        shape = data["input"]
        return ModelCosts(
            name="numbers",
            input=" ".join(shape.lower().replace("×", "x").split()),
            parameters=data["parameters"],
            macs=data["macs"],
            layer_outputs=data["layer_outputs"],
            input_elements=element_count(read_shape(shape)) if shape else None,
            source="numbers",
        )

    def _has_shape(self, *, is_required: bool) -> bool:
        """Return whether the input size can be used; an error is shown at its field."""
        shape = self.cleaned_data["input"]
        if not shape:
            if is_required:
                self.add_error("input", "Enter the size of a sample, such as 3x224x224.")
            return not is_required
        try:
            read_shape(shape)
        except ShapeError as error:
            self.add_error("input", str(error))
            return False
        return True

    @property
    def query(self) -> str:
        """Return the query of this form: its fields that count, without empty ones."""
        source = self.data.get("source", PRESET)
        unused = {
            name
            for other, names in _OF_SOURCE.items()
            for name in names
            if other != source and name not in _OF_SOURCE.get(source, ())
        }
        return urlencode(
            {
                name: self.data[name]
                for name in self.fields
                if name not in unused and self.data.get(name)
            }
        )


def place_value(card: NodeCard) -> str:
    """Return the value of a card of a node in the field ``place``."""
    return f"{card.node.uuid}.{card.key}"


def size_value(size: MarketSize) -> str:
    """Return the value of a memory size in the field ``place``."""
    return f"any-{size.memory_bytes}"


def default_place(cards: Sequence[NodeCard]) -> str:
    """Return the place of a new form: the card with the most memory, '' without one."""
    known = [card for card in cards if card.memory_bytes]
    largest = max(known, key=lambda card: card.memory_bytes or 0, default=None)
    return place_value(largest) if largest else ""


def _preset_label(model: ModelCosts) -> str:
    return f"{model.name} · {model.input}"


def _places(cards: Sequence[NodeCard], market: Sequence[MarketSize]) -> list[Any]:
    own = [
        (
            place_value(card),
            f"{card.node.name} · {card.name}"
            + (f" · {memory_size(card.memory_bytes)}" if card.memory_bytes else ""),
        )
        for card in cards
    ]
    sizes = [(size_value(size), f"Any card · {memory_size(size.memory_bytes)}") for size in market]
    return [
        ("", "No card"),
        *([("Lab", own)] if own else []),
        *([("Catalogue", sizes)] if sizes else []),
    ]
