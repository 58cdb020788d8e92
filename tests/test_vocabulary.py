"""Names, texts, modules and templates stay within tests/vocabulary/limits.toml.

How each figure is counted, and how offenders are listed: scripts/vocabulary.py.
"""

from pathlib import Path

import pytest

from scripts.vocabulary import LISTS, UNITS, Figure, Lists, Tree, print_docs, read_limits, read_list

LIMITS = read_limits()


def test_figures_are_within_their_limits() -> None:
    figures = Tree().figures
    assert LIMITS.keys() <= UNITS.keys() == figures.keys()
    for check in (
        "names_assigned",
        "names_defined",
        "names_tests",
        "text_docs",
        "text_templates",
        "text_messages",
    ):
        assert figures[check].total > 1000, check
    assert figures["text_cli"].total > 500
    assert figures["template_line_mean"].value > 0
    reports = [
        figures[check].report(limit)
        for check, limit in LIMITS.items()
        if figures[check].value > limit.bound
    ]
    if reports:
        pytest.fail("\n\n".join(reports), pytrace=False)


def test_allowed_names_are_few_and_have_reasons() -> None:
    allowed = read_list(LISTS / "allowed_names.txt")
    assert len(allowed) <= 30
    assert all(allowed.values()), "a name without a reason"
    lists = Lists()
    lists.allowed_names = {}
    assert all(lists.listed_part(name) for name in allowed), "a name without a listed word"


# ---- The counter itself, on small trees ----


def figures_of(root: Path, **files: str) -> dict[str, Figure]:
    """Return the figures of a tree; ``__`` in a key is a slash, its last ``_`` the dot."""
    for key, content in files.items():
        stem, _, suffix = key.replace("__", "/").rpartition("_")
        path = root / f"{stem}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return Tree(root).figures


def details(figure: Figure) -> list[str]:
    return [offender.detail for offender in figure.offenders_below()]


def listed_words(figure: Figure) -> list[tuple[int, str]]:
    return [(offender.line, offender.word) for offender in figure.offenders_below()]


@pytest.mark.parametrize(
    "name", ["told", "runs_told", "_told", "TOLD_US", "ToldRun", "runTold", "HTTPTold", "told2"]
)
def test_part_of_a_name_is_counted(tmp_path: Path, name: str) -> None:
    figure = figures_of(tmp_path, apps__runs_py=f"{name} = 1\nother = 2\n")["names_assigned"]
    assert details(figure) == [name]
    assert figure.value == 50


@pytest.mark.parametrize(
    "name", ["shower", "madeira", "foundry", "untolds", "not_found", "NotTol_d", "whole", "known"]
)
def test_other_names_are_not_counted(tmp_path: Path, name: str) -> None:
    figure = figures_of(tmp_path, apps__runs_py=f"{name} = 1\n")["names_assigned"]
    assert (figure.total, details(figure)) == (1, [])


def test_every_place_that_binds_a_name(tmp_path: Path) -> None:
    source = """\
import json as told_json
told: int = 1
told_a, (told_b, *told_c) = 1, (2, 3)
told += 1
class Run:
    told_us: int
    def start(self, told, *told_args, told_key=0, **told_kwargs):
        self.told_at = told
        told.value = 1
        return lambda told_x: told_x
for told_item in [told_y for told_y in ()]:
    pass
with open("x") as told_file:
    pass
try:
    pass
except ValueError as told_error:
    print(told, told_error)
if (told_z := 1):
    pass
match told:
    case [told_first, *told_rest] | {"a": told_first, **told_rest}:
        pass
    case told_any:
        pass
"""
    names = details(figures_of(tmp_path, apps__runs_py=source)["names_assigned"])
    assert names == [
        "told_json",
        "told",
        "told_a",
        "told_b",
        "told_c",
        "told",
        "told_us",
        "told",
        "told_args",
        "told_key",
        "told_kwargs",
        "told_at",
        "told_x",
        "told_item",
        "told_y",
        "told_file",
        "told_error",
        "told_z",
        "told_first",
        "told_first",
        "told_rest",
        "told_rest",
        "told_any",
    ]


def test_definitions_are_counted_apart(tmp_path: Path) -> None:
    source = """\
class Told:
    def __init__(self): ...
    def tell_all(self): ...
async def start(): ...
"""
    figures = figures_of(tmp_path, apps__runs_py=source)
    assert details(figures["names_defined"]) == ["Told", "tell_all"]
    assert figures["names_defined"].total == 3
    assert figures["names_assigned"].total == 0


def test_migrations_and_test_modules_are_left_out(tmp_path: Path) -> None:
    figures = figures_of(
        tmp_path,
        apps__runs__migrations__first_py="told = 1\n",
        tests__runs__test_runs_py="def test_found(): told = 1\n",
        tests__runs__support_py="told = 1\n",
    )
    assert [str(offender) for offender in figures["names_assigned"].offenders] == [
        "tests/runs/support.py:1: told"
    ]
    assert details(figures["names_tests"]) == ["test_found"]


def test_strings_are_counted_by_their_use(tmp_path: Path) -> None:
    source = '''\
"""Told in a docstring."""
import argparse
parser = argparse.ArgumentParser(description="tell all")
parser.add_argument("--told", help=f"the {parser.prog} asks", metavar="TOLD")
key = "told"
message = f"{key} was told: " + "not told"
query = "SELECT told FROM run"
option = "use --tell-again, told_us, {told} or /told/"
# asked of a person
def start():
    """One line.

    It was heard.
    """
    raise ValueError(
        "nobody "
        "asked"
    )
'''
    figures = figures_of(tmp_path, apps__runs_py=source)
    assert listed_words(figures["text_docstrings"]) == [(1, "told"), (13, "heard")]
    assert listed_words(figures["text_cli"]) == [(3, "tell"), (4, "asks")]
    assert listed_words(figures["text_messages"]) == [(6, "told"), (6, "told"), (16, "asked")]
    assert listed_words(figures["text_comments"]) == [(9, "asked")]
    assert details(figures["text"])[0] == "tell  «tell all»"
    assert figures["text"].total == figures["text_cli"].total + figures["text_messages"].total


@pytest.mark.parametrize(
    "source",
    [
        'import argparse\nargparse.ArgumentParser(description=__doc__)\nreason = "told twice"\n',
        "import argparse\ndef add_arguments(parser: argparse.ArgumentParser) -> None: ...\n",
        'class Command:\n    help = "Tell."\n',
    ],
)
def test_texts_displayed_by_a_parser(tmp_path: Path, source: str) -> None:
    cli = listed_words(
        figures_of(tmp_path, scripts__upload_py=f'"""Tell."""\n{source}')["text_cli"]
    )
    assert cli == ([(3, "tell")] if "class" in source else [(1, "tell")])


def test_markdown_without_code_and_links(tmp_path: Path) -> None:
    text = """\
# Told
See [asked](told.md) and `told` and
`a --told
option`; <b title="told">heard</b>.

```python
told = 1
```
~~~
told
~~~
<!-- told
told -->
No one lies.
"""
    figures = figures_of(tmp_path, docs__runs__uploads_md=text)
    assert listed_words(figures["text_docs"]) == [
        (1, "told"),
        (2, "asked"),
        (4, "heard"),
        (14, "lies"),
    ]
    assert figures["text_docs"].total == 9


def test_templates_without_syntax(tmp_path: Path) -> None:
    template = """\
{# told #}{% comment %}
told{% endcomment %}<!-- told -->
<p class="told" title="{{ told }} asked">{% if told == "told" %}Who
{{ told|default:"nobody told" }} told{% endif %}</p>
{% include "told.html" with words="Told" key="told" %}
<script>told</script><input type="submit" value="Tell"><input value="tell" placeholder="heard">
"""
    figure = figures_of(tmp_path, templates__runs_html=template)["text_templates"]
    assert listed_words(figure) == [
        (3, "asked"),
        (4, "told"),
        (4, "told"),
        (5, "told"),
        (6, "heard"),
        (6, "tell"),
    ]


def test_links_in_templates(tmp_path: Path) -> None:
    template = """\
<a href="/runs/">1</a><a href="{% url "runs" %}?a=/b">2</a><a href="{{ run.url }}/x">3</a>
<form action='/runs/{{ run.pk }}/'><a href="#x">4</a>
<a href="{% if a %}{% url 'runs' %}{% else %}/else/{% endif %}">5</a>
<img src="{% static "a.svg" %}"><button hx-get="/live/">6</button>
{% include "link.html" with url="/nodes/" separator=" / " %}
"""
    figure = figures_of(tmp_path, templates__runs_html=template)["template_links"]
    assert [offender.line for offender in figure.offenders_below()] == [1, 2, 3, 4, 5]


def test_links_in_python(tmp_path: Path) -> None:
    source = '''\
"""/runs/"""
address = f"/runs/{run.pk}/"
export = "/assets.csv"
ratio = "a/b"
name = "/".join(parts) + "/ "
'''
    figures = figures_of(tmp_path, apps__dashboard__runs_py=source, apps__runs__api_py=source)
    assert details(figures["python_links"]) == ["/runs/{}/", "/assets.csv"]
    assert len(figures["python_links_elsewhere"].offenders) == 2


def test_sizes(tmp_path: Path) -> None:
    modules = {f"apps__large__module{number}_py": "" for number in range(22)}
    small = {f"apps__small__module{number}_py": "" for number in range(21)} | {
        "apps__small____init___py": ""
    }
    figures = figures_of(
        tmp_path,
        **modules,
        **small,
        apps__long_py="x = 1\n" * 601,
        apps__short_py="x = 1\n" * 600,
        templates__page_html=f"{'a' * 240}\n\n{'b' * 241}\n",
    )
    assert details(figures["folder_modules"]) == ["22 modules"]
    assert details(figures["module_lines"]) == ["601 lines"]
    assert details(figures["template_long_lines"]) == ["241 characters"]
    assert figures["template_line_mean"].value == 240.5


def test_module_names(tmp_path: Path) -> None:
    figures = figures_of(
        tmp_path,
        apps__runs__telling_py="",
        apps__runs__query_parsing_py="",
        apps__lived__models_py="",
        tests__seeded_py="",
        tests__test_telling_py="",
    )
    assert details(figures["module_names"]) == ["lived/", "telling", "seeded"]


def test_post_belongs_to_forms(tmp_path: Path) -> None:
    source = "def save(request): return request.POST\n"
    figures = figures_of(tmp_path, apps__runs__forms_runs_py=source, apps__runs__views_py=source)
    assert [offender.path for offender in figures["request_post"].offenders] == [
        "apps/runs/views.py"
    ]


def test_report_is_grouped_by_file(tmp_path: Path) -> None:
    figures = figures_of(
        tmp_path, apps__b_py="told = 1\n", apps__a_py="x = 1\ntold = 1\nfound = 2\n"
    )
    assert figures["names_assigned"].report(LIMITS["names_assigned"]).splitlines()[1:] == [
        "3 of 4:",
        "apps/a.py",
        "  apps/a.py:2: told",
        "  apps/a.py:3: found",
        "apps/b.py",
        "  apps/b.py:1: told",
    ]


def test_docs_of_any_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.rst").write_text(
        "Told\n====\n\n.. note::\n   asked\n\n.. code-block:: sh\n\n   told\n\n"
        "Run::\n\n  told\n\nSee ``told`` and :ref:`told`.\n"
    )
    (tmp_path / "b.html").write_text(
        "<nav>told</nav><article><p>heard</p><pre>told</pre></article>told"
    )
    print_docs(tmp_path)
    assert capsys.readouterr().out.startswith("5000.00 per 10 000: 3 of 6 words\n2 files; ")
