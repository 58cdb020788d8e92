"""Days of a zone as whole UTC hours: in zones off the hour a day begins with the next whole hour. Pure."""

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo


def midnight_hour(day: date, zone: ZoneInfo) -> int:
    """Return the whole UTC hour at which ``day`` begins in ``zone``; in zones off the hour the next whole one."""
    return -(-int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()) // 3600)


def day_edges(first_hour: int, end_hour: int, zone: ZoneInfo) -> list[int]:
    """Return the first whole UTC hours of the days of ``zone`` that touch ``[first_hour, end_hour)``, and the end."""
    day = datetime.fromtimestamp(first_hour * 3600, tz=zone).date()
    edges = [midnight_hour(day, zone)]
    if edges[0] > first_hour:  # a zone off the hour: its day begins with the next whole hour
        edges.insert(0, midnight_hour(day - timedelta(days=1), zone))
    while edges[-1] < end_hour:
        day += timedelta(days=1)
        edges.append(midnight_hour(day, zone))
    return edges
