"""What code reveals about its settings."""

from __future__ import annotations

import ast

import pytest
from labcarbon_collect.fingerprint.arguments import group_arguments, name_arguments
from labcarbon_collect.fingerprint.code_facts import NO_DEFAULT, CodeFacts, HydraCall, Option
from labcarbon_collect.fingerprint.variables import parse_env_file, select_variables


def facts_of(*sources: str) -> CodeFacts:
    facts = CodeFacts()
    for place, source in enumerate(sources):
        facts.add(list(ast.walk(ast.parse(source))), is_entry=place == 0)
    return facts


def test_options_have_names_numbers_of_values_and_constant_defaults() -> None:
    facts = facts_of(
        "p.add_argument('-e', '--max-epochs', type=int, default=3)\n"
        "p.add_argument('--amp', action='store_true')\n"
        "p.add_argument('--tags', nargs='+')\n"
        "p.add_argument('--root', default=HERE / 'x', dest='data_root')\n"
        "@click.option('--lr', default=0.1)\n"
        "def main(): pass\n"
    )
    assert facts.options["-e"] == facts.options["--max-epochs"] == Option("max_epochs", 1, 3)
    assert facts.options["--amp"] == Option("amp", 0)
    assert facts.options["--tags"] == Option("tags", "+")
    assert facts.options["--root"] == Option("data_root")
    assert facts.defaults == {"max_epochs": 3, "lr": 0.1}


def test_an_option_that_is_declared_in_two_ways_is_unknown() -> None:
    facts = facts_of(
        "a.add_argument('--lr', default=0.1)\n", "b.add_argument('--lr', default=0.2)\n"
    )
    assert facts.options["--lr"] is None
    assert facts.defaults == {}


def test_defaults_that_are_set_elsewhere_are_unknown() -> None:
    assert facts_of("p.add_argument('--lr', default=1)\np.set_defaults(**config)\n").defaults == {}


def test_declared_options_take_their_words() -> None:
    options = facts_of(
        "p.add_argument('--amp', action='store_true')\n"
        "p.add_argument('--tags', nargs='*')\n"
        "p.add_argument('--size', nargs=2)\n"
        "p.add_argument('-b', '--batch-size')\n"
    ).options
    words = ["--amp", "cats.csv", "--tags", "a", "b", "--size", "1", "2", "x", "-b", "4", "--c=1"]
    assert group_arguments(name_arguments(words, options)) == {
        "amp": True,
        "arg0": "cats.csv",
        "tags": ["a", "b"],
        "size": ["1", "2"],
        "arg1": "x",
        "batch_size": "4",
        "--c": "1",
    }


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("--learn 0.2", {"learning_rate": "0.2"}),
        ("--le=0.2", {"le": "0.2"}),  # --learning-rate or --level
        ("-l0.2", {"learning_rate": "0.2"}),
        ("-l 1 --learning-rate 0.2", {"learning_rate": "0.2"}),
        ("--drop 1 --drop 2", {"drop": ["1", "2"]}),
        ("--scale", {"scale": True}),
        ("--scale --no-scale", {"scale": False}),
        ("--plain", {"fancy": False}),
        ("--big", {"size": 10}),
        ("--own 1 --own 2", {"own": ["1", "2"]}),
        ("-vv", {"verbose": [True, True]}),
        ("-vq", {"verbose": True, "quiet": True}),
        ("--flip", {"flip": True}),
        ("--keep", {"flip": False}),
        ("-K", {"flip": False}),
        ("--pair 1 2", {"pair": ["1", "2"]}),
        ("--table a --table b", {"table": ["a", "b"]}),
    ],
)
def test_words_count_as_their_parser_reads_them(words: str, given: dict[str, object]) -> None:
    facts = facts_of(
        "self.add('-l', '--learning-rate', type=float, default=0.1)\n"
        "p.add_argument('--level')\n"
        "p.add_argument('--drop', action='append')\n"
        "p.add_argument('--scale', action=argparse.BooleanOptionalAction, default=True)\n"
        "p.add_argument('--plain', dest='fancy', action='store_false', default=True)\n"
        "p.add_argument('--big', dest='size', action='store_const', const=10)\n"
        "p.add_argument('--own', action=Own)\n"
        "p.add_argument('-v', '--verbose', action='count')\n"
        "p.add_argument('-q', '--quiet', action='store_true')\n"
        "@click.option('--flip/--keep', '-F/-K', default=False)\n"
        "@click.option('--pair', nargs=2)\n"
        "@click.option('--table', multiple=True)\n"
        "def main(): pass\n"
    )
    found = group_arguments(name_arguments(words.split(), facts.options))
    assert {name.lstrip("-"): value for name, value in found.items()} == given


@pytest.mark.parametrize(
    ("source", "variables"),
    [
        ("os.environ['LR']", {"LR": NO_DEFAULT}),
        ("os.environ.get('LR', '0.1')", {"LR": "0.1"}),
        ("os.getenv('LR')", {"LR": NO_DEFAULT}),
        ("environ['LR']", {"LR": NO_DEFAULT}),
        ("os.environ.setdefault('MASTER_PORT', '29500')", {}),
        ("os.environ.get('LR', '1'); os.environ.get('LR', '2')", {"LR": NO_DEFAULT}),
    ],
)
def test_variables_are_found_by_constant_names(source: str, variables: dict[str, object]) -> None:
    facts = facts_of(source)
    assert facts.variables == variables
    assert not facts.reads_unknown_variables


def test_a_computed_name_of_a_variable_is_unknown_unless_its_prefix_is_a_constant() -> None:
    assert facts_of("def read(name): return os.environ.get(name)").reads_unknown_variables
    facts = facts_of("{n: os.environ[n] for n in os.environ if n.startswith('AGENT_')}")
    assert facts.variable_prefixes == {"AGENT_"}
    assert not facts.reads_unknown_variables


def test_variables_of_the_place_are_no_parameters() -> None:
    facts = facts_of("os.environ['RANK']; os.environ['HOSTNAME']; os.environ['LR']")
    environ = {"RANK": "0", "HOSTNAME": "n1", "LR": "0.1", "OTHER": "1"}
    assert select_variables(facts, environ, {}).values == {"env.LR": "0.1"}
    assert select_variables(facts, environ, {"OTHER": "1"}).values == {
        "env.LR": "0.1",
        "env.OTHER": "1",
    }


def test_a_variable_of_the_place_with_which_the_code_computes_is_a_label() -> None:
    facts = facts_of("rank = int(os.environ['RANK'])\nrows = rows[rank::2]\n")
    found = select_variables(facts, {"RANK": "3"}, {})
    assert (found.values, found.labels) == ({"env.RANK": "3"}, {"env.RANK"})


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("rows = rows[:: config['hardware']['workers']]", "workers"),
        ("count = args.num_workers * 3", "num_workers"),
    ],
)
def test_names_with_which_the_code_computes_are_found(source: str, name: str) -> None:
    assert name in facts_of(source).computed


@pytest.mark.parametrize(
    ("source", "is_read"),
    [
        ("p = Path(args.output_dir, 'a.txt')\nw = p.read_text()", True),
        ("torch.load(os.path.join(args.output_dir, 'last.pt'))", True),
        ("open(args.output_dir + '/log')", True),
        ("open(args.output_dir + '/log', 'w')", False),
        ("open(args.output_dir + '/log', mode='a')", False),
        ("os.makedirs(args.output_dir, exist_ok=True)", False),
        ("torch.save(model, args.output_dir + '/m.pt')", False),
        ("if not os.path.exists(args.output_dir): os.mkdir(args.output_dir)", False),
    ],
)
def test_output_folders_that_are_read_are_found(source: str, is_read: bool) -> None:
    assert ("output_dir" in facts_of(source).read) is is_read


@pytest.mark.parametrize(
    ("source", "is_unknown"),
    [
        ("subprocess.run(['git', 'rev-parse', 'HEAD'])", False),
        ("subprocess.run([sys.executable, 'clean.py', path])", False),
        ("subprocess.check_output('nvidia-smi', shell=True)", False),
        ("subprocess.run(command)", True),
        ("subprocess.run([sys.executable, script])", True),
        ("os.system(f'python {script}')", True),
        ("runner.run(command)", False),
    ],
)
def test_programs_with_a_computed_name_are_unknown(source: str, is_unknown: bool) -> None:
    assert facts_of(source).unknown_programs is is_unknown


def test_hydra_is_found_in_the_entry_script_only() -> None:
    source = (
        "@hydra.main(version_base=None, config_path='conf', config_name='config')\ndef f(c): ..."
    )
    assert facts_of(source).hydra == HydraCall("conf", "config")
    assert facts_of("", source).hydra is None


def test_env_files() -> None:
    text = "# note\nexport LR=0.1\nNAME = 'a b'\nEMPTY=\nnot a line\n"
    assert parse_env_file(text) == {"LR": "0.1", "NAME": "a b", "EMPTY": ""}
