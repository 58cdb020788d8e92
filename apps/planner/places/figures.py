"""The figures of a job at one place."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from apps.carbon.greener_hours.starts import Start, greenest_start, start_at
from apps.core.units import US_PER_HOUR
from apps.planner.calibrations import with_calibration
from apps.planner.choices import Basis
from apps.planner.formulas.node_energy import with_node_energy
from apps.planner.formulas.places import (
    add_ranges,
    judge_fit,
    on_other_card,
    samples_per_energy,
    times_rate,
)
from apps.planner.formulas.ranges import Range, divide
from apps.planner.formulas.time_and_energy import (
    Card as RatedCard,
)
from apps.planner.formulas.time_and_energy import (
    Figures,
    from_catalogue,
    from_operations,
)
from apps.planner.mlperf_power import efficiency_of
from apps.planner.places.candidates import Candidate
from apps.planner.places.cards import Card
from apps.planner.places.place import JobNeeds, Place, PlaceKind

MAX_START_HOURS = 168  # of a job whose greenest start is looked for

NO_WORK = "Neither the operations of the training nor a measurement on a card are known."
NO_PEAK = "No basis: the lab has no run on this card, and its peak is unknown."
NO_CARD = "The node does not report the model of its GPU."
NO_MEMORY = "The memory of this card is unknown."
NO_NEED = "The memory that the training needs is unknown."
NO_POWER = "The power of this card is unknown."
NO_SAMPLES = "MLPerf has no power of this card, and the samples or the energy are unknown."
NO_FORECAST = "The grid intensity of the coming hours is unknown."
NO_TIME = "The time is unknown."
TOO_LONG = f"The job takes longer than {MAX_START_HOURS} hours."
NEGATIVE_PRICE = "The mean price of the coming week is below zero."


def place_with_figures(
    candidate: Candidate,
    needs: JobNeeds,
    cards: Mapping[str, Card],
    intensity: Mapping[int, int],
    hours: Sequence[int],
) -> Place:
    """Return the place with the figures of a job. ``intensity``: expected µg per kWh of the coming
    hours. ``hours``: first and last hour in which the job may start.
    """
    place = candidate.place
    reasons = dict(candidate.reasons)
    use, is_scaled, why = _figures(candidate, needs, cards.get(needs.reference_card))
    if use is None:
        reasons |= dict.fromkeys(("time_us", "gpu_energy_mj", "node_energy_mj"), why)
    elif use.gpu_energy_mj is None:
        reasons |= dict.fromkeys(("gpu_energy_mj", "node_energy_mj"), NO_POWER)
    else:
        use = with_node_energy(use, candidate.rest_mw)
        if use.node_energy_mj is None:
            reasons["node_energy_mj"] = NO_POWER
    if use is not None and not is_scaled:  # the reference is widened already
        use = with_calibration(use, needs.calibrations)
    is_other_card = use is not None and use.basis == Basis.CATALOGUE
    placed = replace(
        place,
        basis=use.basis if use else Basis.NONE,
        reference_card=needs.reference_card if is_scaled and is_other_card else "",
        time_us=use.time_us if use else None,
        gpu_energy_mj=use.gpu_energy_mj if use else None,
        node_energy_mj=use.node_energy_mj if use else None,
        ug_per_kwh=candidate.rate.ug_per_kwh if candidate.rate else None,
        factor_name=candidate.rate.name if candidate.rate else "",
    )
    placed = _with_fit(placed, needs, reasons)
    placed = _with_carbon(placed, candidate, reasons)
    placed = _with_cost(placed, candidate, reasons)
    placed = _with_efficiency(placed, needs, reasons)
    placed = _with_starts(placed, intensity, hours, reasons)
    known = {name for name in reasons if getattr(placed, name) is not None}
    return replace(
        placed, reasons={name: text for name, text in reasons.items() if name not in known}
    )


def _figures(
    candidate: Candidate, needs: JobNeeds, reference_card: Card | None
) -> tuple[Figures | None, bool, str]:
    """Return time and energy in the order of trust, whether they are those of the reference or
    scaled from it, and the reason why they are unknown.
    """
    card, gpus = candidate.place.card, needs.gpus
    if candidate.most_gpus < gpus:
        machine = "GPU" if candidate.most_gpus == 1 else "GPUs"
        why = f"A machine there has {candidate.most_gpus} {machine}, the job uses {gpus}."
        return None, False, why
    if needs.reference is None and needs.flops is None:
        return None, False, NO_WORK
    if not card.key:
        return None, False, NO_CARD
    reference = needs.reference
    if reference is not None and reference_card is not None and reference_card.key == card.key:
        is_cloud = candidate.place.kind == PlaceKind.CLOUD  # its machine has another rest
        figures = reference.figures
        return replace(figures, node_energy_mj=None) if is_cloud else figures, True, ""
    flops, past = needs.flops, needs.own_operations.get(card.key, ())
    large, early = needs.is_large, needs.stops_early
    if flops:
        own = from_operations(flops, past, is_large=large, gpus=gpus, stops_early=early)
        if own is not None:
            return own, False, ""
    if reference is not None and reference_card is not None:
        ratio = reference_card.ratio_to(card)
        if ratio is not None and reference.figures.time_us.likely > 0:
            return on_other_card(reference, ratio, card.rated_mw), True, ""
    peak = card.peak_gflops(needs.precision)
    if flops and peak:
        rated = RatedCard(peak, card.rated_mw)
        return from_catalogue(flops, rated, is_large=large, gpus=gpus, stops_early=early), False, ""
    return None, False, NO_PEAK


def _with_fit(place: Place, needs: JobNeeds, reasons: dict[str, str]) -> Place:
    if needs.memory_bytes is None or place.card.memory_bytes is None:
        reasons["fit"] = NO_NEED if needs.memory_bytes is None else NO_MEMORY
        return place
    return replace(place, fit=judge_fit(needs.memory_bytes, place.card.memory_bytes))


def _with_carbon(place: Place, candidate: Candidate, reasons: dict[str, str]) -> Place:
    energy, time_us, pue_ppm = place.node_energy_mj, place.time_us, place.pue_ppm
    location = market = embodied = None
    if energy is not None and pue_ppm is not None:
        if candidate.rate is not None:
            location = times_rate(energy, pue_ppm, candidate.rate.ug_per_kwh, candidate.rate.spread)
        if candidate.market_ug_per_kwh is not None:
            market = times_rate(energy, pue_ppm, candidate.market_ug_per_kwh)
    for name in ("location_ug", "market_ug"):
        reasons.setdefault(name, reasons.get("node_energy_mj", ""))
    if time_us is not None and candidate.embodied:
        embodied = add_ranges(rate.of_time(time_us) for rate in candidate.embodied)
    reasons.setdefault("embodied_ug", reasons.get("time_us", ""))
    return replace(place, location_ug=location, market_ug=market, embodied_ug=embodied)


def _with_cost(place: Place, candidate: Candidate, reasons: dict[str, str]) -> Place:
    energy, time_us, pue_ppm = place.node_energy_mj, place.time_us, place.pue_ppm
    price, hour_price = candidate.price, candidate.hour_price
    if hour_price is not None and time_us is not None:
        low, likely, high = (
            divide(hour_price.ucurrency_per_kwh * end, US_PER_HOUR)
            for end in (time_us.low, time_us.likely, time_us.high)
        )
        cost = Range(low, likely, high)
        return replace(place, cost_ucurrency=cost, currency=hour_price.currency)
    if price is not None and energy is not None and pue_ppm is not None:
        if price.ucurrency_per_kwh < 0:
            reasons["cost_ucurrency"] = NEGATIVE_PRICE
            return place
        cost = times_rate(energy, pue_ppm, price.ucurrency_per_kwh)
        return replace(place, cost_ucurrency=cost, currency=price.currency)
    missing = "time_us" if hour_price is not None else "node_energy_mj"
    reasons.setdefault("cost_ucurrency", reasons.get(missing, ""))
    return place


def _with_efficiency(place: Place, needs: JobNeeds, reasons: dict[str, str]) -> Place:
    """Add samples per joule: of the GPUs as measured, else of a node by MLPerf."""
    energy = place.gpu_energy_mj
    if needs.samples and energy is not None and place.basis not in (Basis.NONE, Basis.CATALOGUE):
        return replace(
            place,
            usamples_per_joule=samples_per_energy(needs.samples, energy),
            efficiency_source=place.basis.value,
        )
    row = efficiency_of(place.card.name, needs.benchmark)
    if row is not None:
        value = row.usamples_per_joule
        return replace(
            place, usamples_per_joule=Range(value, value, value), efficiency_source=row.label
        )
    reasons["usamples_per_joule"] = NO_SAMPLES
    return place


def _with_starts(
    place: Place, intensity: Mapping[int, int], hours: Sequence[int], reasons: dict[str, str]
) -> Place:
    """Add a start in this hour and the greenest one of a job of the likely time."""
    first_hour, last_hour = hours
    if place.time_us is None:
        reasons["greenest_start"] = NO_TIME
        return place
    duration = max(1, -(-place.time_us.likely // US_PER_HOUR))
    if duration > MAX_START_HOURS:
        reasons["greenest_start"] = TOO_LONG
        return place
    best: Start | None = greenest_start(
        intensity, first_hour=first_hour, last_hour=last_hour, duration_hours=duration
    )
    if best is None:
        reasons["greenest_start"] = NO_FORECAST
    return replace(place, starts_now=start_at(intensity, first_hour, duration), greenest_start=best)
