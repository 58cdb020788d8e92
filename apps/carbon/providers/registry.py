"""The providers of hourly grid intensity. A new provider is one file and one entry here. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from apps.carbon.providers import csv_folder, electricity_maps, energy_charts, uk_carbon_intensity
from apps.carbon.providers.readings import Readings
from apps.carbon.providers.shape import Shape

LIFECYCLE, DIRECT = "lifecycle", "direct"


@dataclass(frozen=True)
class WebApi:
    """How the hours of a provider are requested.

    - ``max_days``: most days of a request, at least 2.
    - ``range_path``, ``recent_path``: path and query of a range, and of the last 24 hours for plans
      without ranges.
    - ``forecast_path``: path and query of the coming hours ``[start, end)``.
    - ``headers``: of a request with a token. ``error_text``: the message in an error response.
    """

    address: str
    max_days: int
    range_path: Callable[[str, str, int, int], str]
    shape: Callable[[Any], Shape]
    error_text: Callable[[dict[str, Any]], str]
    forecast_path: Callable[[str, str, int, int], str]
    recent_path: Callable[[str, str], str] | None = None
    headers: Callable[[str], Mapping[str, str]] | None = None


@dataclass(frozen=True)
class Provider:
    """A provider. ``bases``: those of its figures. ``zones``: the only grid zones that it has;
    empty: any. ``web``: None if files are read.
    """

    label: str
    bases: tuple[str, ...]
    source: str
    licence: str
    parse: Callable[[bytes, str, str], Readings]
    web: WebApi | None = None
    zones: tuple[str, ...] = ()
    has_lower_case_zones: bool = False

    @property
    def needs_token(self) -> bool:
        """Return whether its requests contain a token."""
        return self.web is not None and self.web.headers is not None

    def code_of(self, zone: str) -> str:
        """Return the provider's code of a grid zone."""
        return zone.lower() if self.has_lower_case_zones else zone


PROVIDERS: Mapping[str, Provider] = {
    electricity_maps.NAME: Provider(
        label="Electricity Maps",
        bases=(LIFECYCLE, DIRECT),
        source="Electricity Maps, API v3, carbon intensity",
        licence="contract with Electricity Maps",
        parse=electricity_maps.parse,
        web=WebApi(
            address="https://api.electricitymaps.com",
            max_days=electricity_maps.MAX_DAYS,
            range_path=electricity_maps.range_path,
            recent_path=electricity_maps.recent_path,
            forecast_path=electricity_maps.forecast_path,
            headers=electricity_maps.headers,
            shape=electricity_maps.shape,
            error_text=electricity_maps.error_text,
        ),
    ),
    uk_carbon_intensity.NAME: Provider(
        label="UK Carbon Intensity",
        bases=(DIRECT,),
        source="NESO Carbon Intensity API, national intensity",
        licence="CC BY 4.0",
        parse=uk_carbon_intensity.parse,
        zones=("GB",),
        web=WebApi(
            address="https://api.carbonintensity.org.uk",
            max_days=uk_carbon_intensity.MAX_DAYS,
            range_path=uk_carbon_intensity.range_path,
            forecast_path=uk_carbon_intensity.range_path,
            shape=uk_carbon_intensity.shape,
            error_text=uk_carbon_intensity.error_text,
        ),
    ),
    energy_charts.NAME: Provider(
        label="Energy-Charts",
        bases=(LIFECYCLE,),
        source="Energy-Charts (Fraunhofer ISE), CO2 equivalents",
        licence="CC BY 4.0",
        parse=energy_charts.parse,
        has_lower_case_zones=True,
        web=WebApi(
            address="https://api.energy-charts.info",
            max_days=energy_charts.MAX_DAYS,
            range_path=energy_charts.range_path,
            forecast_path=energy_charts.range_path,
            shape=energy_charts.shape,
            error_text=energy_charts.error_text,
        ),
    ),
    csv_folder.NAME: Provider(
        label="CSV folder",
        bases=(LIFECYCLE, DIRECT),
        source="CSV files of the lab",
        licence="stated by the lab",
        parse=csv_folder.parse,
    ),
}
