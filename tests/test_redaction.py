"""A token's secret stands in no line of a log, tracebacks and what a library formats included."""

import logging

from django.conf import settings

from apps.accounts.credentials import compose_token
from labcarbon.log_redaction import RedactingFormatter, redact

TOKEN = compose_token("cc", 1234567, 62**40 + 12345)
SECRET = TOKEN.rpartition("_")[2]


def test_the_secret_is_removed_and_the_id_stays() -> None:
    told = redact(f"POST /codecarbon/{TOKEN}/runs and lc_cc_short")
    assert SECRET not in told
    assert told == f"POST /codecarbon/{TOKEN.removesuffix(SECRET)}…/runs and lc_cc_short"


def test_part_of_a_token_is_removed() -> None:
    """A token that was cut off when it was copied is most of a secret."""
    assert SECRET[:20] not in redact(f"/codecarbon/{TOKEN[:-15]}/runs")


def test_arguments_and_tracebacks() -> None:
    formatter = RedactingFormatter(inner=logging.Formatter("%(levelname)s %(message)s"))
    try:
        raise ValueError(TOKEN)
    except ValueError as error:
        record = logging.LogRecord(
            "x",
            logging.ERROR,
            "",
            1,
            "asked for %s",
            (TOKEN,),
            (ValueError, error, error.__traceback__),
        )
    line = formatter.format(record)
    assert "asked for lc_cc_" in line
    assert "ValueError: lc_cc_" in line
    assert SECRET not in line


def test_every_handler_of_the_server_redacts() -> None:
    for handler in settings.LOGGING["handlers"].values():
        assert (
            settings.LOGGING["formatters"][handler["formatter"]]["()"]
            == "labcarbon.log_redaction.RedactingFormatter"
        )
