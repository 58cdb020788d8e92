"""Template tags of the pages. Only ``{% figure %}`` renders quantities."""

from collections.abc import Iterable
from typing import Any
from zoneinfo import ZoneInfo

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from apps.catalog.packs import Pack, notices
from apps.core.clock import utc
from apps.core.units import US_PER_HOUR
from apps.dashboard.addresses import address
from apps.dashboard.embodied_format import Amount
from apps.dashboard.figures import ChangeSince, EmbodiedQuantity, Projected, Quantity
from apps.dashboard.formatting import KG, THIN, grouped, share
from apps.dashboard.periods import day_text

register = template.Library()


@register.simple_tag
def figure(quantity: Quantity | None, unit: bool = True) -> SafeString:
    """Return a figure as a link to its explanation, with its query and its exact integer.

    ``unit`` False leaves the unit to the column's head. None is rendered as a dash: nothing to show
    here.
    """
    if not quantity:  # None, or '' for an attribute of None
        return SafeString('<span class="u">–</span>')
    if quantity.missing:
        return format_html(
            '<a class="no-factor" href="{}" title="{}">{}</a>',
            quantity.href,
            quantity.title,
            quantity.missing,
        )
    gap = THIN if quantity.unit == "%" else "\u00a0"
    shown_unit = format_html('{}<span class="u">{}</span>', gap, quantity.unit) if unit else ""
    return format_html(
        '<a class="figure" data-figure="{0}" data-value="{1}" href="{2}?{0}" title="{3}">'
        "{4}{5}{6}</a>",
        quantity.data,
        quantity.value,
        address("explain"),
        quantity.title,
        f"≥{THIN}" if quantity.at_least else "",
        quantity.number,
        shown_unit,
    )


@register.simple_tag
def projected(quantity: Projected | None, unit: bool = True) -> SafeString:
    """Return the quantity of a fact that is not recorded yet: without link, with its exact
    integer as tooltip.
    """
    if quantity is None:
        return SafeString('<span class="u">–</span>')
    if quantity.missing:
        return format_html('<span class="would warn">{}</span>', quantity.missing)
    prefix = f"≥{THIN}" if quantity.at_least else ""
    unit_html = format_html('\u00a0<span class="u">{}</span>', quantity.unit) if unit else ""
    return format_html(
        '<span class="would" data-would title="{} exactly">{}{}{}</span>',
        quantity.exact,
        prefix,
        quantity.number,
        unit_html,
    )


@register.simple_tag
def change_since(change: ChangeSince) -> SafeString:
    """Return what a figure has changed by since: 'unchanged', or 'up' or 'down' with its size."""
    if change.direction == "unchanged":
        return format_html("{}", change.direction)
    return format_html("{} {}", change.direction, projected(change.size))


@register.simple_tag
def embodied(quantity: EmbodiedQuantity | None, unit: bool = False) -> SafeString:
    """Return an amount of the catalogue in kg CO2e as a link to its entry, exact integer as
    tooltip. None: a dash.
    """
    if quantity is None:
        return SafeString('<span class="u">–</span>')
    unit_html = format_html('\u00a0<span class="u">{}</span>', KG.name) if unit else ""
    title = f"{quantity.exact} exactly. Open the explanation"
    return format_html(
        '<a class="figure" data-embodied="{}" data-value="{}" href="{}" title="{}">{}{}</a>',
        quantity.figure.pk,
        quantity.value,
        quantity.href,
        title,
        quantity.number,
        unit_html,
    )


@register.simple_tag
def amount(
    carbon: Amount | None, unit: bool = False, projected: bool = False, with_range: bool = False
) -> SafeString:
    """Return an amount of embodied carbon, as a link to its explanation if it has a query. None: a
    dash.

    ``projected`` marks an amount that a fact not yet recorded would make.
    """
    if carbon is None:
        return SafeString('<span class="u">–</span>')
    if carbon.missing:
        title = "Embodied carbon unknown, not zero"
        return format_html('<span class="u unknown" title="{}">{}</span>', title, carbon.missing)
    number = format_html("{}{}", "≥ " if carbon.at_least else "", carbon.number)
    if unit:
        number = format_html('{}&nbsp;<span class="u">{}</span>', number, carbon.unit)
    if carbon.query:
        number = format_html(
            '<a class="figure nowrap" data-figure="{0}" data-value="{1}" data-ug="{1}" '
            'href="{4}?{0}"'
            ' title="{2} exactly. Open the explanation">{3}</a>',
            carbon.query.to_query_string(),
            carbon.value,
            carbon.exact,
            number,
            address("explain"),
        )
    else:
        number = format_html(
            (
                '<span class="{} nowrap" data-part="embodied" data-ug="{}" title="{} '
                'exactly">{}</span>'
            ),
            "would" if projected else "part",
            carbon.value,
            carbon.exact,
            number,
        )
    if with_range and carbon.range_text:
        number = format_html(
            '{} <span class="u nowrap" data-range>{}</span>', number, carbon.range_text
        )
    return number


@register.simple_tag(takes_context=True)
def moment(context: template.Context, time_us: int | None, seconds: bool = False) -> SafeString:
    """Return a time in the lab's zone, with UTC as tooltip."""
    if time_us is None:
        return format_html('<span class="u">{}</span>', "never")
    visitor = context.get("visitor")
    zone = visitor.zone if visitor else ZoneInfo("UTC")
    utc_time = utc(time_us)
    local_time = utc_time.astimezone(zone)
    clock = "%H:%M:%S" if seconds else "%H:%M"
    return format_html(
        '<time class="nowrap" datetime="{}" title="{} UTC">{} {}</time>',
        utc_time.strftime("%Y-%m-%dT%H:%M:%SZ"),
        utc_time.strftime("%Y-%m-%d %H:%M:%S"),
        day_text(local_time.date(), year=True),
        local_time.strftime(clock),
    )


@register.simple_tag(takes_context=True)
def day(context: template.Context, time_us: int | None) -> SafeString:
    """Return the day of a time in the lab's zone, with UTC as tooltip."""
    if time_us is None:
        return format_html('<span class="u">{}</span>', "never")
    visitor = context.get("visitor")
    utc_time = utc(time_us)
    local_time = utc_time.astimezone(visitor.zone if visitor else ZoneInfo("UTC"))
    stamps = utc_time.strftime("%Y-%m-%dT%H:%M:%SZ"), utc_time.strftime("%Y-%m-%d %H:%M")
    return format_html(
        '<time class="nowrap" datetime="{}" title="{} UTC">{}</time>',
        *stamps,
        day_text(local_time.date(), year=True),
    )


@register.simple_tag(takes_context=True)
def hour_moment(context: template.Context, hour: int) -> SafeString:
    """Return the start of a UTC hour in the lab's zone, with UTC as tooltip."""
    return moment(context, hour * US_PER_HOUR)


@register.simple_tag(name="address")
def address_tag(name: str, *args: Any) -> str:
    """Return the address of a page. In long tables it is faster than ``{% url %}``."""
    return address(name, *args)


register.filter("grouped", grouped)
register.filter("share", share)


@register.filter
def unbroken(text: str) -> str:
    """Return a number and its unit with no-break spaces."""
    return text.replace(" ", "\xa0")


@register.filter
def at_slashes(path: str) -> SafeString:
    """Permit line breaks after the slashes of a path."""
    return format_html_join(SafeString("/<wbr>"), "{}", ((part,) for part in path.split("/")))


@register.filter
def metric(value: float) -> str:
    """Return a metric of a run with four significant digits. It is not a figure: LabCarbon did
    not compute it.
    """
    return f"{value:.4g}"


@register.inclusion_tag("components/pack_notices.html")
def pack_notices(names: Iterable[str]) -> dict[str, list[Pack]]:
    """Show the notices of the data packs that a page uses."""
    return {"packs": notices(set(names))}
