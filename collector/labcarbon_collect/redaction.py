"""Masking of secrets in command lines and parameters. Pure.

When in doubt the text is masked: a masked value is reported as such, but a value that was sent
cannot be recalled.
"""

from __future__ import annotations

import re
from typing import List, Match, Sequence

MASK = "(masked)"
_MAX_TEXT = 4096
# Names of options, variables and JSON fields. "token" alone is a secret. "max_tokens" and
# "pad_token" are not.
_SECRET_WORDS = frozenset(
    (
    "password", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets", "token",
    "credential", "credentials", "creds", "apikey", "accesskey", "secretkey", "privatekey", "auth",
    "authorization", "authentication", "bearer", "cookie", "dsn", "netrc",
)
)  # fmt: skip
_SECRET_SUFFIXES = ("token", "secret", "apikey", "password", "passwd", "passphrase", "credentials")
_KEY_PREFIXES = frozenset(
    ("api", "access", "private", "secret", "account", "ssh", "encryption", "signing", "license")
)
_TEXT_TOKEN_WORDS = frozenset(
    (
    "pad", "eos", "bos", "unk", "mask", "cls", "sep", "special", "image", "start", "stop", "begin",
    "end", "id", "ids", "type", "types", "per", "max", "min", "num", "n", "count", "level",
)
)  # fmt: skip
_TOKEN_FORMATS = re.compile(
    r"(?<![A-Za-z0-9])("
    r"lc_[a-z]+_[A-Za-z0-9]{6,}_\w{16,}|gh[pousr]_\w{6,}|github_pat_\w+|glpat-[\w-]{6,}|"
    r"sk-[\w-]{6,}|[sr]k_(?:live|test)_\w+"
    r"|hf_[A-Za-z0-9]{6,}(?![\w.])"
    r"|xox[abeoprs]-[\w-]+|xapp-[\w-]+|(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{8,}|AIza[\w-]{10,}|"
    r"ya29\.[\w-]+|npm_\w{10,}"
    r"|pypi-AgE[\w-]{6,}|nvapi-[\w-]{6,}|r8_\w{10,}|dop_v1_\w+|SG\.[\w-]{6,}\.[\w-]+|"
    r"eyJ[\w-]+\.[\w.-]*)"
)
_PEM = re.compile(r"-----BEGIN ")
_USERINFO = re.compile(r"(://)[^/\s]*@")
_SCHEME = re.compile(r"\b(bearer|basic|digest|negotiate)(\s+)(\S+)", re.IGNORECASE)
# name=value, "name": "value", --name=value, ?name=value&…
_PAIR = re.compile(
    r"""(?<![\w.-])[.-]*(?P<name>\w[\w.-]*)["']?\s*(?:=|:(?!//))\s*(?P<value>"[^"]*"?|'[^']*'?|[^\s"'&;,}]+)"""
)
_WORD = re.compile(r"[^\s\"'`,;:=&?@()<>{}\[\]|]+")
_SEGMENT = re.compile(r"[A-Za-z0-9]{16,}")
_HEX = re.compile(
    r"(?<![A-Za-z0-9])(?=[0-9A-Fa-f]*[0-9])(?=[0-9A-Fa-f]*[A-Fa-f])[0-9A-Fa-f]{32,}(?![A-Za-z0-9])"
)
_BASE64_KEY = re.compile(r"^(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9+/]{40}$")
_BASE64 = re.compile(
    r"(?<![\w+/=-])(?=[\w+/-]*[a-z])(?=[\w+/-]*[A-Z])(?=[\w+/-]*[0-9])[A-Za-z0-9+/_-]{18,}={1,2}(?"
    r"![\w=\"'])"
)
# Programs with a password in a short option: curl -u name:password, mysql -ppassword, sshpass -p
# password.
_CLIENT_PROGRAMS = frozenset(
    (
    "curl", "wget", "http", "https", "mysql", "mysqldump", "mysqladmin", "mariadb", "sshpass",
    "redis-cli", "mongosh", "ldapsearch",
)
)  # fmt: skip
_CLIENT_OPTION = re.compile(r"^-[upPwa](?P<value>.*)$")


def is_secret_name(name: str) -> bool:
    """Whether values of this name are secrets: ``--hf-token``, ``DB_PASSWORD``, ``apiKey``."""
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]
    pairs = list(zip(words, words[1:]))  # noqa: RUF007 - Python 3.9
    if words == ["connection", "string"] or any(
        word in _KEY_PREFIXES for word, following in pairs if following == "key"
    ):
        return True
    matches = _SECRET_WORDS.intersection(words)
    if matches <= {"token"} and words and _TEXT_TOKEN_WORDS.intersection(words):
        return False
    return (
        bool(matches)
        or name.strip("-") == "pass"
        or any(word.endswith(_SECRET_SUFFIXES) for word in words)
    )


def is_secret_value(text: str) -> bool:
    """Whether the text contains a likely secret, whatever its name."""
    return mask_argument(text) != _truncate(text)


def mask_text(text: str) -> str:
    """Mask likely secrets in ``text``. At most 4096 characters are searched and returned."""
    text = _truncate(text)
    if _PEM.search(text):
        return MASK
    text = _USERINFO.sub(rf"\1{MASK}@", text)
    text = _SCHEME.sub(_mask_scheme, text)
    text = _mask_secret_pairs(text)
    for pattern in (_TOKEN_FORMATS, _HEX, _BASE64):
        text = pattern.sub(MASK, text)
    return _WORD.sub(lambda match: MASK if _is_random(match.group()) else match.group(), text)


def mask_arguments(arguments: Sequence[str]) -> List[str]:
    """Mask secrets in a command line, including values that follow the option of a secret:
    ``--password x``.
    """
    masked: List[str] = []
    is_client = is_next_secret = False
    for argument in arguments:
        option = _CLIENT_OPTION.match(argument) if is_client else None
        is_secret = is_next_secret and not argument.startswith("--")
        if is_secret:
            masked.append(MASK)
        elif option and option.group("value"):
            masked.append(argument[:2] + MASK)
        else:
            masked.append(mask_argument(argument))
        is_next_secret = not is_secret and (
            bool(option and not option.group("value")) or _expects_secret(argument, is_client)
        )
        is_client = argument.rpartition("/")[2] in _CLIENT_PROGRAMS or (
            is_client and not argument.endswith((";", "|", "&"))
        )
    return masked


def mask_argument(argument: str) -> str:
    """Mask one argument, name or value. It may contain a command line: ``sh -c "train --token
    x"``.
    """
    name, equals, _ = argument.partition("=")
    if equals and " " not in name and is_secret_name(name):
        return f"{name}={MASK}"  # a value may contain blanks
    words = _truncate(argument).split(" ")
    if len(words) == 1:
        return mask_text(argument)
    return mask_text(" ".join(mask_arguments(words)))  # a script as one argument: sh -c "…"


def _expects_secret(argument: str, is_client: bool) -> bool:
    """Whether the next argument is the value of this option and a secret."""
    if not argument.startswith("-") or "=" in argument:
        return False
    return is_secret_name(argument.lstrip("-")) or (
        is_client and argument in ("--user", "--proxy-user")
    )


def _mask_scheme(match: Match[str]) -> str:
    # "basic training" is no credential: the second word must look like one.
    value = match.group(3)
    is_credential = len(value) >= 8 and (
        value.rstrip("=").isalnum() or any(not letter.isalpha() for letter in value)
    )
    is_word = value.isalpha() and value.islower()
    return (
        f"{match.group(1)}{match.group(2)}{MASK}"
        if is_credential and not is_word
        else match.group()
    )


def _mask_secret_pairs(text: str) -> str:
    """Mask the values of secret names. Values of other names are searched for such pairs too."""
    result, position = "", 0
    while True:
        match = _PAIR.search(text, position)
        if match is None:
            return result + text[position:]
        is_secret = is_secret_name(match.group("name")) and not match.group("value").startswith(
            "(masked"
        )
        result += text[position : match.start("value")] + (MASK if is_secret else "")
        position = match.end() if is_secret else match.start("value")


def _is_random(word: str) -> bool:
    """Whether a word looks random: its digits and cases alternate more often than in any name."""
    if _BASE64_KEY.match(word):
        return True
    return any(
        _count_transitions(part) >= max(4, len(part) * (0.3 if len(part) < 20 else 0.2))
        for part in _SEGMENT.findall(word)
    )


def _count_transitions(part: str) -> int:
    """Count the positions between a letter and a digit, and case changes that do not start a
    word.
    """
    count = 0
    for index in range(1, len(part)):
        previous, current = part[index - 1], part[index]
        following = part[index + 1] if index + 1 < len(part) else ""
        meets_digit = previous.isdigit() != current.isdigit()
        is_hump = previous.islower() and current.isupper() and not following.islower()
        ends_acronym = (
            previous.isupper() and current.islower() and index >= 2 and part[index - 2].isupper()
        )
        count += meets_digit or is_hump or ends_acronym
    return count


def _truncate(text: str) -> str:
    """Truncate a very long text at a word boundary. Half a secret would not look like one."""
    if len(text) <= _MAX_TEXT:
        return text
    return text[:_MAX_TEXT].rpartition(" ")[0] + " …"
