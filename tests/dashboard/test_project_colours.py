"""A project has the same colour in all periods."""

from itertools import permutations

from apps.dashboard.overview.energy_use import COLOURS, project_colour


def colours_of(listed: list[str], slugs: list[str]) -> dict[str, str]:
    colours: dict[str, str] = {}
    for slug in listed:
        colours[slug] = project_colour(slug, slugs, list(colours.values()))
    return colours


def test_up_to_six_projects_keep_their_colour_in_any_order() -> None:
    slugs = ["a", "b", "c", "d", "e", "f"]
    fixed = dict(zip(slugs, COLOURS, strict=True))
    for listed in permutations(slugs, 4):
        assert colours_of(list(listed), slugs) == {slug: fixed[slug] for slug in listed}


def test_of_more_projects_the_six_first_have_different_colours() -> None:
    slugs = [f"p{i}" for i in range(20)]
    for first in range(14):
        colours = list(colours_of(slugs[first : first + 6], slugs).values())
        assert len(set(colours[:6])) == 6
        assert "s-more" not in colours[:6]
    colours = list(colours_of([*slugs[::3], "unlisted", *slugs[1::3]], slugs).values())
    assert sorted(colours[:6]) == sorted(COLOURS)
    assert set(colours[6:]) == {"s-more"}
