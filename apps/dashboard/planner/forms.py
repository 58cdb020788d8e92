"""Form of the planner: the model and its training. It is sent with GET: the URL is its state."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.core.exceptions import ValidationError

from apps.accounts.models import Project
from apps.dashboard.forms import TextField
from apps.dashboard.planner.like_run import LikeRun, run_uuid
from apps.dashboard.planner.place_choices import default_place, place_choices
from apps.planner.cards import MarketSize, NodeCard
from apps.planner.formulas.layer_shapes import ShapeError, element_count, read_shape
from apps.planner.formulas.layer_table import LayerTableError, read_layer_table
from apps.planner.formulas.memory import Memory, compute_memory
from apps.planner.formulas.model_costs import ModelCosts
from apps.planner.formulas.training_setup import ATTENTIONS, Training, TrainingError
from apps.planner.presets import presets

PRESET, LAYERS, NUMBERS, NO_MODEL = "preset", "layers", "numbers", "none"
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
    "attention": "unknown", "gpus": "1", "early": "off",
}  # fmt: skip
# Fields of Training that have another name here.
_FIELDS = {"micro_batch": "batch", "part": "trainable", "trained_parameters": "trained"}
MAX_GPUS = 100_000
# Fields that count for one source of the model only.
_OF_SOURCE = {
    PRESET: ("preset",),
    LAYERS: ("layers", "input"),
    NUMBERS: ("parameters", "macs", "layer_outputs", "input"),
    NO_MODEL: (),
}


class WholeNumberField(forms.IntegerField):
    """A whole number from 1 to ``most``. Spaces between thousands are read."""

    widget = forms.TextInput

    def __init__(self, most: int = MAX_NUMBER, **options: Any) -> None:
        messages = {
            "invalid": "Enter a whole number above 0, such as 50000.",
            "min_value": "Enter a number from 1 on.",
            "max_value": f"Enter a number up to {most:,}.".replace(",", " "),
            "required": "Enter a number.",
        }
        super().__init__(min_value=1, max_value=most, error_messages=messages, **options)
        self.widget.attrs.setdefault("inputmode", "numeric")

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str):
            value = "".join(value.split())
            if value and not (value.isascii() and value.isdecimal() and len(value) <= 20):
                raise ValidationError(self.error_messages["invalid"], code="invalid")
        return super().to_python(value)


class PlannerForm(forms.Form):
    """A planned training. ``costs`` of its model, ``training`` and ``memory`` of each GPU by the
    refined formula: None if the form is invalid, or without a model. ``like``: the run of the
    field ``run``.
    """

    run = TextField(
        label="Run",
        required=False,
        max_length=400,
        widget=forms.TextInput({"list": "finished-runs", "placeholder": "Name or address"}),
    )
    source = forms.ChoiceField(
        label="Model from",
        choices=[
            (PRESET, "Preset"),
            (LAYERS, "Layer table"),
            (NUMBERS, "Numbers"),
            (NO_MODEL, "Unknown"),
        ],
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
    steps = WholeNumberField(label="Steps, in place of epochs", required=False)
    batch = WholeNumberField(label="Batch size", required=False)
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
    gpus = WholeNumberField(MAX_GPUS, label="GPUs", required=False)
    early = forms.ChoiceField(
        label="Early stop", choices=[("off", "No: the total is fixed"), ("on", "Possible")]
    )
    place = forms.ChoiceField(label="Run on", required=False)
    project = forms.ChoiceField(label="Project", required=False)

    def __init__(
        self,
        params: Mapping[str, Any],
        cards: Sequence[NodeCard],
        market: Sequence[MarketSize],
        *,
        projects: Sequence[Project] = (),
        like: LikeRun | None = None,
    ) -> None:
        self.like = like
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
        self._set_choices("place", place_choices(cards, market, like.node if like else None))
        self._set_choices(
            "project", [("", "No project"), *((each.slug, each.name) for each in projects)]
        )

    def _set_choices(self, name: str, choices: list[Any]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices

    def clean_run(self) -> str:
        text: str = self.cleaned_data["run"]
        if not text:
            return ""
        uuid = run_uuid(text)
        if uuid is None:
            raise ValidationError("Choose a run of the list, or enter the address of its page.")
        return str(uuid)

    def clean(self) -> dict[str, Any]:
        data = self.cleaned_data
        source = data.get("source")
        if data.get("epochs") and data.get("steps"):
            self.add_error("steps", "Enter epochs or steps, not both.")
        if source is None:
            return data
        if source != NO_MODEL and data.get("batch") is None and "batch" not in self.errors:
            self.add_error("batch", "Enter a number.")
        for other, names in _OF_SOURCE.items():
            for name in names if other != source else ():
                if name not in _OF_SOURCE[source]:  # of another source: not read
                    self.errors.pop(name, None)
        if not any(name in self.errors for name in _OF_SOURCE[source]):
            readers = {PRESET: self._preset, LAYERS: self._layer_table, NUMBERS: self._numbers}
            self.costs = readers[source]() if source in readers else None
        if self.costs is not None and not self.errors:
            self._compute(self.costs)
        return data

    def _compute(self, costs: ModelCosts) -> None:
        data = self.cleaned_data
        training = Training(
            micro_batch=-(-data["batch"] // self.gpu_count),
            optimiser=data["optimiser"],
            precision=data["precision"],
            part=data["trainable"],
            trained_parameters=None if data["trainable"] == "full" else data["trained"],
            attention=data["attention"],
            has_checkpointing=data["checkpointing"] == "on",
            gpus=self.gpu_count,
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
    def gpu_count(self) -> int:
        """Return the number of GPUs of a valid form, 1 if it is unknown."""
        return self.cleaned_data["gpus"] or 1

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
        values = {
            name: self.data.get(name, "")
            for name in self.fields
            if name not in unused and (self.data.get(name) or self.initial.get(name))
        }
        if self.like is not None:
            values["run"] = str(self.like.training.run.uuid)
        return urlencode(values)


def _preset_label(model: ModelCosts) -> str:
    return f"{model.name} · {model.input}"
